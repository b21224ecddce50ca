// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/block.hpp"

#include <limits>
#include <new>
#include <optional>

#include "base/forks.hpp"
#include "base/reports_later.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {
namespace {

// Return a number for this process: never 0, and another one in a forked child.
std::uint16_t this_process() noexcept {
  return static_cast<std::uint16_t>(detail::fork_generation % std::numeric_limits<std::uint16_t>::max() + 1);
}

}  // namespace

// Locks the record of uses. A thread of the parent that was inside when the process forked never leaves in the child,
// and the record may be half changed there; so the next thread to enter rebuilds it.
class BlockGuard {
 public:
  explicit BlockGuard(Block& block) noexcept : block_(block) {
    const auto mine = this_process();
    auto before = block_.busy_.exchange(mine, std::memory_order_acquire);
    for (unsigned round = 0; before == mine; ++round) {
      sync::pause(round);
      before = block_.busy_.exchange(mine, std::memory_order_acquire);
    }
    if (before == 0) return;
    later_.emplace();
    block_.rebuild();
  }
  ~BlockGuard() { block_.busy_.store(0, std::memory_order_release); }
  BlockGuard(const BlockGuard&) = delete;
  BlockGuard& operator=(const BlockGuard&) = delete;

 private:
  std::optional<detail::ReportsLater> later_;  // ends last: the sink may ask the block
  Block& block_;
};

// Any stream may have been in the record, so all streams are recorded. If there is no memory for a new record, the
// block's memory is never given back.
void Block::rebuild() noexcept {
  const detail::ReportsLater later;  // than the lock of the list of streams

  uses_.store(nullptr, std::memory_order_relaxed);  // the old record may be half changed
  try {
    uses_.store(new Uses(*this), std::memory_order_relaxed);
    ForkLink::for_each<StreamState>([this](StreamState& user) {
      if (&user == stream || user.device().inherited || !user.try_retain()) return;
      const auto reference = Ref<StreamState>::adopt(&user);
      recorded()->add(user, user.position(), Points::How::use);
    });
  } catch (const std::bad_alloc&) {
    if (segment) segment->retain();
  }
}

void Block::used(StreamState& user, std::uint64_t value) { record(user, value, Points::How::use); }

// The caller is the only owner, so nobody else is inside. A record that a thread of the parent left half changed is
// rebuilt.
void Block::used_last(StreamState& user, std::uint64_t value) {
  leave_parent();
  add(user, value, Points::How::lend);
}

void Block::waits_for(StreamState& user, std::uint64_t value) { record(user, value, Points::How::keep); }

void Block::record(StreamState& user, std::uint64_t value, Points::How how) {
  if (&user == stream) return;
  const BlockGuard guard(*this);
  add(user, value, how);
}

void Block::add(StreamState& user, std::uint64_t value, Points::How how) {
  if (!recorded()) uses_.store(new Uses(*this), std::memory_order_release);
  recorded()->add(user, value, how, 1);  // leaves room for the allocation stream when the block ends
}

std::vector<Point> Block::uses() {
  std::vector<Point> points;
  {
    const BlockGuard guard(*this);
    if (const Uses* const uses = recorded()) points = uses->list();
  }
  if (stream) points.push_back({Kept(*stream), stream->position()});
  return points;
}

std::vector<Point> Block::uses_before(const StreamState* follower) {
  std::vector<Point> points;
  if (!never_left_home()) {
    const BlockGuard guard(*this);
    if (const Uses* const uses = recorded()) points = uses->list_unreached(follower);
  }
  // The caller owns memory that was used there, and may be the last that is allowed to have the stream marked.
  for (const Point& use : points) {
    if (use.stream->has_work_from_outside()) use.stream->mark_used(use.value);
  }
  if (!stream || stream == follower) return points;
  const auto last = stream->position();
  if (!stream->reached(last)) points.push_back({Kept(*stream), last});
  return points;
}

bool Block::known_complete() const noexcept {
  return never_left_home() &&
         (!stream || (!stream->has_work_from_outside() && stream->known_reached(stream->issued())));
}

// One use at a time, because a stream is not asked under the guard: that may take a lock of the application's.
void Block::mark_uses() noexcept {
  for (std::size_t index = 0;; ++index) {
    Point use;
    {
      const BlockGuard guard(*this);
      Uses* const uses = recorded();
      if (!uses || index >= uses->entries().size()) return;
      const auto& entry = uses->entries()[index];
      use = {Kept(*entry.stream), entry.value};
    }
    use.stream->mark_used(use.value);
  }
}

// Called when no thread is inside any more, except for one that the fork left in the parent.
void Block::leave_parent() noexcept {
  const auto inside = busy_.load(std::memory_order_relaxed);
  if (inside == 0 || inside == this_process()) [[likely]]
    return;
  rebuild();
  busy_.store(0, std::memory_order_relaxed);
}

}  // namespace weir::spi
