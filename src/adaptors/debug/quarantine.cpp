// SPDX-License-Identifier: Apache-2.0
#include "adaptors/debug/quarantine.hpp"

#include <mutex>
#include <utility>

#include "copy/host_bytes.hpp"
#include "copy/staging.hpp"
#include "copy/transfer.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

// Return whether the memory cannot be checked: it belongs to a parent's driver, or to one that ends with the process
// and calls everything complete.
bool out_of_sight(const spi::Segment& segment) noexcept {
  const auto ended = segment.device->backend->ended;
  return segment.device->inherited || (ended && ended());
}

}  // namespace

Quarantine::Quarantine(ResourcePtr upstream, std::string name, const DebugOptions& options, GiveBack how)
    : upstream_(std::move(upstream)), name_(std::move(name)), options_(options), give_back_(how), queue_(upstream_->device().state()) {}

void Quarantine::watch(Live::node_type guarded) noexcept {
  const std::scoped_lock lock(mutex_);
  guarded.mapped()->number = ++last_number_;
  live_.insert(std::move(guarded));
}

void Quarantine::closed(spi::Block& block) noexcept {
  Live::node_type ended;
  {
    const std::scoped_lock lock(mutex_);
    ended = live_.extract(&block);
  }
  Owned guarded = std::move(ended.mapped());
  guarded->leave();
  if (out_of_sight(*block.segment)) return give_back(std::move(guarded));
  try {
    auto points = block.uses();
    block.keep_uses();
    after(std::move(points), guarded, [](Quarantine& self, Owned one) { self.look_at_guards(std::move(one)); });
  } catch (const std::exception& why) {
    give_back_unseen(std::move(guarded), why);
  }
}

// Hand `guarded` to `action` once all points have passed. Throws for want of memory, and then has not taken it.
template <class Action>
void Quarantine::after(std::vector<spi::Point> points, Owned& guarded, Action action) {
  const auto bytes = guarded->total();
  waiting_bytes_ += bytes;
  try {
    run_after(queue_, std::move(points),
              [self = shared_from_this(), one = guarded.get(), bytes, action = std::move(action)]() mutable {
                self->waiting_bytes_ -= bytes;
                one->block->forget_uses();
                action(*self, Owned(one));
              });
  } catch (...) {
    waiting_bytes_ -= bytes;
    throw;
  }
  (void)guarded.release();
}

bool Quarantine::keeps(const Guarded& guarded) const noexcept {
  // A process that was given a descriptor may still read what another process wrote here.
  return options_.poison && guarded.total() <= options_.quarantine_bytes &&
         !guarded.block->segment->exportable;
}

void Quarantine::look_at_guards(Owned guarded) noexcept {
  const Guarded& one = *guarded;
  if (one.block->stream->lost()) return give_back(std::move(guarded));  // its fills may never have run
  const bool kept = keeps(one);
  look(std::move(guarded),
       {Expected{one.before(), one.guard, guard_byte, "before its beginning were overwritten"},
        Expected{one.after(), one.guard, guard_byte, "after its end were overwritten"}},
       kept, kept ? &Quarantine::keep : &Quarantine::give_back);
}

void Quarantine::look_at_poison(Owned guarded) noexcept {
  const std::size_t all = guarded->total();
  look(std::move(guarded),
       Places{Expected{0, all, closed_byte, "were written after it was closed"}, Expected{}}, false,
       &Quarantine::give_back);
}

void Quarantine::look(Owned guarded, const Places& places, bool poison, void (Quarantine::*next)(Owned) noexcept) {
  if (out_of_sight(*guarded->block->segment)) return give_back(std::move(guarded));
  try {
    if (!guarded->on_host()) return look_on_device(guarded, places, poison, next);
    look_on_host(*guarded, places, poison);
  } catch (const std::exception& why) {
    return give_back_unseen(std::move(guarded), why);
  }
  (this->*next)(std::move(guarded));
}

void Quarantine::look_on_host(const Guarded& guarded, const Places& places, bool poison) {
  spi::Segment& segment = *guarded.block->segment;
  const auto offset = guarded.block->offset;
  for (const Expected& place : places) {
    if (place.bytes == 0) continue;
    segment.before_host_read(offset + place.begin, place.bytes);
    judge(guarded, place, {segment.host + offset + place.begin, place.bytes});
  }
  if (poison) {
    fill_host({&segment, offset}, guarded.total(), std::to_integer<std::uint64_t>(closed_byte), 1);
  }
}

// Copy and fill on a helper stream, which no user waits for. Nothing else uses the memory.
void Quarantine::look_on_device(Owned& guarded, const Places& places, bool poison,
                            void (Quarantine::*next)(Owned) noexcept) {
  spi::Block& block = *guarded->block;
  auto& device = *block.segment->device;
  std::size_t bytes = 0;
  for (const Expected& place : places) bytes += place.bytes;
  Stream helper = take_helper(device);
  auto copy = std::make_shared<Buffer>(take_staging(device, bytes));
  const auto copied_to = copy->location().offset;
  std::size_t done = 0;
  for (const Expected& place : places) {
    if (place.bytes == 0) continue;
    transfer({copy->block(), copied_to + done}, {&block, block.offset + place.begin}, place.bytes, helper);
    done += place.bytes;
  }
  if (poison) {
    fill({&block, block.offset}, guarded->total(), std::to_integer<std::uint64_t>(closed_byte), 1, helper);
  }
  const Event end = helper.record();
  const Stream stream = helper;
  recycle_helper(std::move(helper));
  after({{spi::Kept(*end.timeline()), end.value()}}, guarded, [copy, places, stream, next](Quarantine& self, Owned one) {
    const bool lost = stream.state().lost() || out_of_sight(*one->block->segment);
    try {
      if (!lost) self.judge_copy(*one, places, *copy);
    } catch (const std::exception& why) {
      return self.give_back_unseen(std::move(one), why);
    }
    try {
      recycle_staging(std::move(*copy), stream);
    } catch (const std::exception&) {  // then the copy is closed instead
    }
    (self.*(lost ? &Quarantine::give_back : next))(std::move(one));
  });
}

void Quarantine::judge_copy(const Guarded& guarded, const Places& places, const Buffer& copy) {
  const spi::Block& block = *copy.block();
  block.segment->before_host_read(block.offset, copy.size());
  const std::byte* at = block.segment->host + block.offset;
  for (const Expected& place : places) {
    judge(guarded, place, {at, place.bytes});
    at += place.bytes;
  }
}

void Quarantine::judge(const Guarded& guarded, const Expected& place, std::span<const std::byte> bytes) noexcept {
  const Damage found = damage(bytes, place.value);
  if (found.count == 0) return;
  violations_.fetch_add(1, std::memory_order_relaxed);
  try {
    report({{}, name_, describe(guarded, found, place.begin, place.otherwise)});
  } catch (const std::bad_alloc&) {
    report({make_error_code(std::errc::not_enough_memory), name_,
            "a buffer was damaged; std::bad_alloc while that was described"});
  }
}

void Quarantine::keep(Owned guarded) noexcept {
  Guarded* oldest = nullptr;  // of those that have to go
  {
    const std::scoped_lock lock(mutex_);
    if (!ended_) {
      kept_bytes_ += guarded->total();
      (newest_ ? newest_->next : oldest_) = guarded.get();
      newest_ = guarded.release();
      Guarded** last = &oldest;
      while (kept_bytes_ > options_.quarantine_bytes) {
        *last = oldest_;
        oldest_ = std::exchange((*last)->next, nullptr);
        kept_bytes_ -= (*last)->total();
        last = &(*last)->next;
      }
      if (!oldest_) newest_ = nullptr;
    }
  }
  if (guarded) return look_at_poison(std::move(guarded));
  while (oldest) look_at_poison(Owned(std::exchange(oldest, oldest->next)));
}

bool Quarantine::give_back_kept(Look look) noexcept {
  Guarded* oldest = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    oldest = std::exchange(oldest_, nullptr);
    newest_ = nullptr;
    kept_bytes_ = 0;
  }
  const bool some = oldest != nullptr;
  while (oldest) {
    Owned one(std::exchange(oldest, oldest->next));
    if (look == Look::at_all || one->on_host()) {
      look_at_poison(std::move(one));
    } else {
      give_back(std::move(one));
    }
  }
  return some;
}

void Quarantine::end() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  give_back_kept(Look::at_all);
}

void Quarantine::give_back(Owned guarded) noexcept {
  give_back_(*upstream_, *guarded->block);
  ++given_back_;
}

bool Quarantine::give_back_some(std::chrono::steady_clock::time_point deadline) noexcept {
  const auto before = given_back_.load();
  for (unsigned round = 0; waiting() != 0 || round == 0; ++round) {
    if (!queue_.settle()) sync::pause(round);
    give_back_kept(Look::where_quick);
    if (given_back_.load() != before) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
  return false;
}

// The check of the guards may be followed by a check of the poison.
void Quarantine::drain() {
  constexpr int looks = 2;
  for (int i = 0; i < looks; ++i) queue_.drain();
}

void Quarantine::give_back_unseen(Owned guarded, const std::exception& why) noexcept {
  const auto* error = dynamic_cast<const Error*>(&why);
  const bool lost = error && error->code() == Errc::device_lost;
  if (!out_of_sight(*guarded->block->segment) && (!lost || !told_lost_.exchange(true))) {
    try {
      report({{}, name_, "a closed buffer could not be looked at: " + std::string(why.what())});
    } catch (const std::bad_alloc&) {
      report({make_error_code(std::errc::not_enough_memory), name_,
              "a closed buffer could not be looked at: std::bad_alloc"});
    }
  }
  give_back(std::move(guarded));
}

}  // namespace weir::detail
