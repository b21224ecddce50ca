// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/sent_points.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "base/never_ends.hpp"
#include "base/thrown_by.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/spi/waiter.hpp"

namespace weir::detail::channel {
namespace {

/// The pages of this process, by the user whose processes see them. Whoever forks leaves them to the parent.
struct Pages {
  sync::Mutex mutex;
  std::map<uid_t, std::vector<std::weak_ptr<SentPoints>>> of;
  std::uint32_t process = 0;
};

Pages& pages() { return never_ends<Pages>(); }

std::atomic<SentPoints*> written{nullptr};  // the first page that devices write; such pages never end

const ForkStep pages_step(13, [](spi::ForkMoment moment) noexcept { hold_across_fork(pages().mutex, moment); });

/// What stands on a stream for a point that the host reaches. If it ends before it was kept, the stream is lost.
class Pledge {
 public:
  Pledge(std::shared_ptr<OwnPage> page, PagePoint point) noexcept : page_(std::move(page)), point_(point) {}
  Pledge(const Pledge&) = delete;
  Pledge& operator=(const Pledge&) = delete;
  ~Pledge() {
    if (page_) page_->give_up(point_.word);
  }
  void keep() noexcept {
    page_->reach(point_);
    cancel();
  }
  void cancel() noexcept { page_.reset(); }

 private:
  std::shared_ptr<OwnPage> page_;
  const PagePoint point_;
};

std::uint64_t put_pledge(spi::StreamState& timeline, const std::shared_ptr<OwnPage>& page, PagePoint point) {
  const auto pledge = std::make_shared<Pledge>(page, point);
  try {
    return timeline.put_promise({[pledge] { pledge->keep(); }});
  } catch (...) {
    pledge->cancel();
    throw;
  }
}

/// What waits on a timeline until the device has reached a point, or never will.
class Stored final : public spi::Waiter {
 public:
  Stored(std::shared_ptr<OwnPage> page, PagePoint point) noexcept : page_(std::move(page)), point_(point) {}
  static void passed(Waiter& self, spi::InHand& /*others*/) noexcept {
    const std::unique_ptr<Stored> over(static_cast<Stored*>(&self));
    over->page_->settle(over->point_);
  }

 private:
  const std::shared_ptr<OwnPage> page_;
  const PagePoint point_;
};

std::uint64_t put_store(spi::StreamState& timeline, const std::shared_ptr<OwnPage>& page, PagePoint point) {
  auto stored = std::make_unique<Stored>(page, point);
  const auto value = timeline.put(spi::StoreOp{page->words() + point.word, point.value});
  timeline.awaited(value);  // also when nobody names the stream any more
  if (timeline.after(value, *stored, &Stored::passed, true)) {
    (void)stored.release();
  } else {
    page->settle(point);
  }
  return value;
}

}  // namespace

std::shared_ptr<SentPoints> SentPoints::of(uid_t user) {
  std::shared_ptr<SentPoints> page;
  std::vector<std::shared_ptr<SentPoints>> full;  // both may end here, without the lock
  const std::scoped_lock lock(pages().mutex);
  if (std::exchange(pages().process, fork_generation) != fork_generation) pages().of.clear();
  if (const auto known = pages().of.find(user); known != pages().of.end()) {
    for (const auto& one : known->second) {
      page = one.lock();
      if (page && page->has_room()) return page;
      if (page) full.push_back(std::move(page));
    }
  }
  page = std::make_shared<SentPoints>();
  pages().of[user].push_back(page);
  return page;
}

SentPoints::~SentPoints() {
  const std::scoped_lock lock(pages().mutex);
  for (auto& [user, all] : pages().of) std::erase_if(all, [](const auto& page) { return page.expired(); });
  std::erase_if(pages().of, [](const auto& one) { return one.second.empty(); });
}

// The device goes on, and will write words whose points were never reached.
void SentPoints::give_up(const spi::StreamState& timeline) noexcept {
  for (SentPoints* one = written.load(); one; one = one->next_written_) {
    if (one->process_ != fork_generation) continue;
    const std::scoped_lock lock(one->mutex_);
    if (const auto word = one->words_.find(timeline.id())) one->page_->give_up(*word);
  }
}

// Words of streams that were lost with such work serve nobody any more.
bool SentPoints::has_room() {
  constexpr std::size_t many = page_words / 8 * 7;
  const std::scoped_lock lock(mutex_);
  return words_.waited_for([&](PagePoint point) { return page_->goes_on(point); }) <= many;
}

// The values of a word are put on the stream in their order, so one thread at a time puts one there.
PagePoint SentPoints::record(const Stream& stream) {
  auto& timeline = stream.state();
  const bool stores = timeline.stores_natively() && let_write(timeline.device());
  PagePoint point;
  {
    std::unique_lock lock(mutex_);
    for (;; changed_.wait(lock)) {
      const auto word = words_.of(timeline.id(), [&](PagePoint given) { return page_->goes_on(given); });
      if (!word)
        throw Error(Errc::unsupported,
                    "ipc::Channel::send: " + std::to_string(page_words) +
                        " other streams have work that the peer waits for, or were lost with such work, which is as "
                        "many as a page has words for; synchronize one that has work, or use another channel");
      if (!timeline.has_work_from_outside()) {
        if (const auto given = words_.given(*word, timeline.issued())) return *given;
      }
      if (!words_.keep(*word)) continue;
      point = words_.next(*word);
      break;
    }
  }
  std::optional<std::uint64_t> value;
  const auto refused =
      thrown_by([&] { value = stores ? put_store(timeline, page_, point) : put_pledge(timeline, page_, point); });
  {
    const std::scoped_lock lock(mutex_);
    if (value) words_.give(point.word, *value);
    words_.release(point.word);
  }
  changed_.notify_all();
  if (refused) std::rethrow_exception(refused);
  return point;
}

// Return whether devices of this backend write the page. The host does while another thread asks them.
bool SentPoints::let_write(spi::DeviceState& device) {
  const auto find = [&] { return std::ranges::find(writers_, device.backend, &Writer::backend); };
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = find(); known != writers_.end()) return known->answer == Writer::Answer::yes;
    writers_.push_back({device.backend, Writer::Answer::awaited});
  }
  bool reaches = false;
  const auto refused = thrown_by([&] { reaches = device.reach_host(page_->words(), page_bytes); });
  const std::scoped_lock lock(mutex_);
  if (refused) {
    writers_.erase(find());
    std::rethrow_exception(refused);
  }
  find()->answer = reaches ? Writer::Answer::yes : Writer::Answer::no;
  if (reaches && !for_good_) {
    for_good_ = shared_from_this();
    next_written_ = written.load();
    while (!written.compare_exchange_weak(next_written_, this)) {
    }
    spi::StreamState::on_false_stores(&give_up);
  }
  return reaches;
}

}  // namespace weir::detail::channel
