// SPDX-License-Identifier: Apache-2.0
#include "reclaim.hpp"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "forks.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

bool passed(std::vector<spi::Point>& points) {
  std::erase_if(points, [](const spi::Point& p) { return p.stream->finished(p.value); });
  return points.empty();
}

struct Item {
  const spi::DeviceState* device;
  std::vector<spi::Point> points;
  std::function<void()> action;
  bool acting = false;
};

// One list and one thread for all devices; the thread exists while there is something to wait for.
class Reclaimer {
  using Lock = std::unique_lock<std::mutex>;

 public:
  /// Throws only for want of memory, and then has not taken the item.
  void add(Item item) {
    const std::scoped_lock lock(mutex_);
    auto& pending = pending_[item.device];
    items_.push_back(std::move(item));
    ++pending;
    if (running_) return arrived_.notify_one();
    try {
      start();
    } catch (const std::exception& error) {  // whoever comes next tries again
      report({{}, "release of memory", error.what()});
    }
  }

  void drain(const spi::DeviceState& device) {
    Lock lock(mutex_);
    if (acts_here()) return;
    if (pending_[&device] != 0 && !running_) start();
    scanned_.wait(lock, [&] { return pending_[&device] == 0; });
  }

  bool settle(const spi::DeviceState& device) {
    Lock lock(mutex_);
    if (acts_here()) return false;
    const auto before = pending_[&device];
    if (before != 0 && !running_) start();
    const auto enough = scans_ + 2;  // the scan under way may have passed an item already
    scanned_.wait(lock, [&] { return pending_[&device] == 0 || scans_ >= enough; });
    return pending_[&device] < before;
  }

  [[nodiscard]] bool acts() noexcept {
    const std::scoped_lock lock(mutex_);
    return acts_here();
  }

  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::before) return mutex_.lock();
    if (moment == spi::ForkMoment::child) begin_in_child();
    mutex_.unlock();
  }

 private:
  [[nodiscard]] bool acts_here() const noexcept { return running_ && worker_id_ == std::this_thread::get_id(); }

  // Without the worker, who comes back when somebody needs one. What it was giving back is leaked, and so is what the
  // parent's drivers have.
  void begin_in_child() noexcept {
    new (&arrived_) std::condition_variable;  // the parent's threads wait on the old ones for ever
    new (&scanned_) std::condition_variable;
    const bool lost = running_ && !acts_here();
    if (lost) running_ = false;
    static auto& leaked = *new std::list<Item>;
    for (auto item = items_.begin(); item != items_.end();) {
      const auto next = std::next(item);
      if (item->acting ? lost : item->device->inherited) {
        --pending_.find(item->device)->second;
        leaked.splice(leaked.end(), items_, item);
      }
      item = next;
    }
  }

  void start() {
    try {
      std::thread worker([this] { run(); });
      worker_id_ = worker.get_id();
      worker.detach();
    } catch (const std::system_error& error) {
      throw Error(error.code(), std::string("no thread to wait for the last use of memory: ") + error.what());
    }
    running_ = true;
  }

  void run() noexcept {
    Lock lock(mutex_);
    unsigned fruitless = 0;
    while (!items_.empty()) {
      const bool some = scan(lock);
      ++scans_;
      scanned_.notify_all();
      fruitless = some ? 0 : fruitless + 1;
      if (items_.empty() && arrived_.wait_for(lock, linger, [&] { return !items_.empty(); })) continue;
      if (!items_.empty() && !some) sleep_on_first(lock, fruitless);
    }
    running_ = false;
  }

  // Look at each item that is there now; whether one was done. They stay in the list and change under the lock only, so
  // that a forked child finds all of them there.
  bool scan(Lock& lock) {
    bool some = false;
    auto item = items_.begin();
    for (auto rest = items_.size(); rest != 0; --rest) {
      if (!passed_unlocked(*item, lock)) {
        ++item;
        continue;
      }
      item->acting = true;
      lock.unlock();
      std::exchange(item->action, nullptr)();
      lock.lock();
      --pending_.find(item->device)->second;
      item = items_.erase(item);
      some = true;
    }
    return some;
  }

  // Drivers are asked, and streams end, without the lock.
  static bool passed_unlocked(Item& item, Lock& lock) {
    spi::Point over;
    while (!item.points.empty()) {
      const spi::Point& last = item.points.back();
      lock.unlock();
      over = {};
      const bool finished = last.stream->finished(last.value);
      lock.lock();
      if (!finished) return false;
      over = std::move(item.points.back());
      item.points.pop_back();
    }
    lock.unlock();
    over = {};
    lock.lock();
    return true;
  }

  // Nothing has passed: wait for the oldest point, but look at the others again soon. The end of a lost timeline's work
  // cannot be waited for, only asked, and may never come: ask less and less.
  void sleep_on_first(Lock& lock, unsigned fruitless) {
    const spi::Point point = items_.front().points.back();
    if (point.stream->lost()) {
      (void)arrived_.wait_for(lock, patience * (1U << std::min(fruitless, 10U)));
      return;
    }
    lock.unlock();
    bool waited = true;
    try {
      (void)point.stream->wait_for(point.value, patience);
    } catch (const std::exception&) {  // a parent's timeline, and no thread for what is left on it
      waited = false;
    }
    lock.lock();
    if (!waited) (void)arrived_.wait_for(lock, patience);
  }

  static constexpr std::chrono::milliseconds linger{50};
  static constexpr std::chrono::milliseconds patience{1};

  std::mutex mutex_;
  std::condition_variable arrived_, scanned_;
  std::uint64_t scans_ = 0;
  std::list<Item> items_;
  std::map<const spi::DeviceState*, std::size_t> pending_;
  std::thread::id worker_id_;
  bool running_ = false;
};

Reclaimer& reclaimer() {
  static auto& instance = *new Reclaimer;  // leaked: buffers may be closed during exit
  return instance;
}

// Put the driver's free on the one stream that still uses the memory. False when the driver has no such free, or when
// several streams are not done: none of them may be made to wait for another.
bool release_in_order(spi::Ref<spi::Segment>& segment, const std::vector<spi::Point>& points) {
  if (!segment->frees_in_order()) return false;
  const spi::Point* home = nullptr;
  for (const spi::Point& point : points) {
    const bool done = points.size() > 1 && point.stream->finished(point.value);
    if (done) continue;
    if (home) return false;
    home = &point;
  }
  if (!home) home = &points.back();
  if (home->stream->lost() || &home->stream->device() != segment->device) return false;
  home->stream->put(spi::FreeOp{segment});
  segment = {};
  return true;
}

}  // namespace

void report_leak(const spi::DeviceState& device, std::size_t bytes, const char* why) noexcept {
  try {
    const auto message = std::to_string(bytes) + " bytes of " + device.describe() +
                         " are leaked, because their last use could not be waited for: " + why;
    report({{}, "release of memory", message});
  } catch (const std::bad_alloc&) {
    report({make_error_code(std::errc::not_enough_memory), "release of memory",
            "memory is leaked: std::bad_alloc while its last use was to be waited for"});
  }
}

void run_after(const spi::DeviceState& device, std::vector<spi::Point> points, std::function<void()> action) {
  if (passed(points)) return action();
  reclaimer().add({&device, std::move(points), std::move(action)});
}

void release_after(spi::Ref<spi::Segment> segment, std::vector<spi::Point> points, bool release_blocks,
                   ReclaimListener& listener, std::shared_ptr<void> keep) noexcept {
  const auto bytes = segment->size;
  const auto& device = *segment->device;
  if (device.inherited) {
    segment->lease.reset();
    (void)segment.detach();  // the parent's driver has it
    return listener.segment_released(bytes);
  }
  if (!release_blocks && !segment->frees_in_order() && passed(points)) {  // at once, and without asking for memory
    segment = {};
    return listener.segment_released(bytes);
  }
  // Raw, because a function must be copyable and must not free when it ends without having been run: leak rather than
  // free too early.
  spi::Segment* left = nullptr;
  try {
    try {
      if (release_in_order(segment, points)) return listener.segment_released(bytes);
    } catch (const std::exception&) {  // nothing was put: lost, or no memory
    }
    left = segment.detach();
    std::function<void()> action = [left, bytes, &listener, keep = std::move(keep)]() mutable {
      left->release();
      listener.segment_released(bytes);
      keep.reset();
    };
    if (release_blocks) return reclaimer().add({&device, std::move(points), std::move(action)});
    run_after(device, std::move(points), std::move(action));
  } catch (const std::exception& error) {
    report_leak(device, bytes, error.what());
  }
}

void end_block(spi::Block& block, BlockStore& blocks, bool release_blocks, ReclaimListener& listener,
               const std::shared_ptr<void>& keep) noexcept {
  auto segment = spi::Ref<spi::Segment>::adopt(block.segment);
  auto points = block.take_points();
  const auto last = blocks.put(block);
  if (segment) release_after(std::move(segment), std::move(points), release_blocks, listener, keep);
}

void fork_reclaim(spi::ForkMoment moment) noexcept { reclaimer().fork(moment); }

bool in_release() noexcept { return reclaimer().acts(); }
void drain_releases(const spi::DeviceState& device) { reclaimer().drain(device); }
bool settle_releases(const spi::DeviceState& device) { return reclaimer().settle(device); }

}  // namespace weir::detail
