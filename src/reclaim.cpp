// SPDX-License-Identifier: Apache-2.0
#include "reclaim.hpp"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

struct Item {
  const spi::DeviceState* device;
  std::vector<spi::Point> points;
  std::function<void()> action;

  bool passed() {
    std::erase_if(points, [](const spi::Point& p) { return p.stream->finished(p.value); });
    return points.empty();
  }
};

// One list and one thread for all devices; the thread exists while there is something to wait for.
class Reclaimer {
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
    } catch (const std::system_error& error) {  // whoever comes next tries again
      report({error.code(), "release of memory", "no thread to wait for the last use"});
    }
  }

  void drain(const spi::DeviceState& device) {
    std::unique_lock lock(mutex_);
    if (pending_[&device] != 0 && !running_) start();
    scanned_.wait(lock, [&] { return pending_[&device] == 0; });
  }

  bool settle(const spi::DeviceState& device) {
    std::unique_lock lock(mutex_);
    const auto before = pending_[&device];
    if (before != 0 && !running_) start();
    const auto enough = scans_ + 2;  // the scan under way may have passed an item already
    scanned_.wait(lock, [&] { return pending_[&device] == 0 || scans_ >= enough; });
    return pending_[&device] < before;
  }

 private:
  void start() {
    std::thread([this] { run(); }).detach();
    running_ = true;
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    unsigned fruitless = 0;
    while (!items_.empty()) {
      std::list<Item> batch, waiting, done;
      batch.splice(batch.end(), items_);
      lock.unlock();
      while (!batch.empty()) {
        Item& item = batch.front();
        const bool passed = item.passed();
        if (passed) std::exchange(item.action, nullptr)();
        auto& list = passed ? done : waiting;
        list.splice(list.end(), batch, batch.begin());
      }
      lock.lock();
      for (const Item& item : done) --pending_.find(item.device)->second;
      ++scans_;
      scanned_.notify_all();
      items_.splice(items_.begin(), waiting);
      fruitless = done.empty() ? fruitless + 1 : 0;
      if (items_.empty() && arrived_.wait_for(lock, linger, [&] { return !items_.empty(); })) continue;
      if (!items_.empty() && done.empty()) sleep_on_first(lock, fruitless);
    }
    running_ = false;
  }

  // Nothing has passed: wait for the oldest point, but look at the others again soon. The end of a lost timeline's work
  // cannot be waited for, only asked, and may never come: ask less and less.
  void sleep_on_first(std::unique_lock<std::mutex>& lock, unsigned fruitless) {
    const spi::Point point = items_.front().points.front();
    if (point.stream->lost()) {
      (void)arrived_.wait_for(lock, patience * (1U << std::min(fruitless, 10U)));
      return;
    }
    lock.unlock();
    (void)point.stream->wait_for(point.value, patience);
    lock.lock();
  }

  static constexpr std::chrono::milliseconds linger{50};
  static constexpr std::chrono::milliseconds patience{1};

  std::mutex mutex_;
  std::condition_variable arrived_, scanned_;
  std::uint64_t scans_ = 0;
  std::list<Item> items_;
  std::map<const spi::DeviceState*, std::size_t> pending_;
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

void report_leak(const spi::DeviceState& device, std::size_t bytes, const char* why) noexcept {
  try {
    const auto message = std::to_string(bytes) + " bytes of " + device.describe() +
                         " are leaked, because their last use could not be waited for: " + why;
    report({{}, "release of memory", message});
  } catch (const std::exception&) {
    report({{}, "release of memory", why});
  }
}

}  // namespace

void run_after(const spi::DeviceState& device, std::vector<spi::Point> points, std::function<void()> action) {
  Item item{&device, std::move(points), std::move(action)};
  if (item.passed()) return item.action();
  reclaimer().add(std::move(item));
}

void release_after(spi::Ref<spi::Segment> segment, std::vector<spi::Point> points, bool release_blocks,
                   ReclaimListener& listener, std::shared_ptr<void> keep) noexcept {
  const auto bytes = segment->size;
  const auto& device = *segment->device;
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

void drain_releases(const spi::DeviceState& device) { reclaimer().drain(device); }
bool settle_releases(const spi::DeviceState& device) { return reclaimer().settle(device); }

}  // namespace weir::detail
