// SPDX-License-Identifier: Apache-2.0
#include "reclaim.hpp"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

struct Item {
  const spi::DeviceState* device;
  std::vector<spi::Point> points;
  std::function<void()> action;

  bool passed() {
    std::erase_if(points, [](const spi::Point& p) { return p.stream->lost() || p.stream->reached(p.value); });
    return points.empty();
  }
};

// One list and one thread for all devices; the thread exists while there is something to wait for.
class Reclaimer {
 public:
  void add(Item item) {
    const std::scoped_lock lock(mutex_);
    items_.push_back(std::move(item));
    ++pending_[items_.back().device];
    if (running_) {
      arrived_.notify_one();
      return;
    }
    std::thread([this] { run(); }).detach();
    running_ = true;
  }

  void drain(const spi::DeviceState& device) {
    std::unique_lock lock(mutex_);
    scanned_.wait(lock, [&] { return pending_[&device] == 0; });
  }

  bool settle(const spi::DeviceState& device) {
    std::unique_lock lock(mutex_);
    const auto before = pending_[&device];
    const auto enough = scans_ + 2;  // the scan under way may have passed an item already
    scanned_.wait(lock, [&] { return pending_[&device] == 0 || scans_ >= enough; });
    return pending_[&device] < before;
  }

 private:
  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (!items_.empty()) {
      std::list<Item> batch;
      batch.splice(batch.end(), items_);
      lock.unlock();
      std::list<Item> waiting;
      std::vector<const spi::DeviceState*> done;
      while (!batch.empty()) {
        Item& item = batch.front();
        if (item.passed()) {
          done.push_back(item.device);
          item.action();
          batch.pop_front();
        } else {
          waiting.splice(waiting.end(), batch, batch.begin());
        }
      }
      lock.lock();
      for (const auto* state : done) --pending_[state];
      ++scans_;
      scanned_.notify_all();
      items_.splice(items_.begin(), waiting);
      if (items_.empty() && arrived_.wait_for(lock, linger, [&] { return !items_.empty(); })) continue;
      if (!items_.empty() && done.empty()) sleep_on_first(lock);
    }
    running_ = false;
  }

  // Nothing has passed: wait for the oldest point, but look at the others again soon.
  void sleep_on_first(std::unique_lock<std::mutex>& lock) {
    const spi::Point point = items_.front().points.front();
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
    const bool done = points.size() > 1 && (point.stream->lost() || point.stream->reached(point.value));
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

void run_after(const spi::DeviceState& device, std::vector<spi::Point> points, std::function<void()> action) {
  Item item{&device, std::move(points), std::move(action)};
  if (item.passed()) return item.action();
  reclaimer().add(std::move(item));
}

void release_after(spi::Ref<spi::Segment> segment, std::vector<spi::Point> points, bool release_blocks,
                   ReclaimListener& listener, std::shared_ptr<void> keep) noexcept {
  const auto bytes = segment->size;
  const auto& device = *segment->device;
  try {
    try {
      if (release_in_order(segment, points)) return listener.segment_released(bytes);
    } catch (const Error&) {  // that stream is lost: its points count as passed
    }
    // Shared, because a function must be copyable: the segment goes with the action, not with its copies.
    auto owned = std::make_shared<spi::Ref<spi::Segment>>(std::move(segment));
    std::function<void()> action = [owned, bytes, &listener, keep = std::move(keep)]() mutable {
      *owned = {};
      listener.segment_released(bytes);
      keep.reset();
    };
    if (release_blocks) return reclaimer().add({&device, std::move(points), std::move(action)});
    run_after(device, std::move(points), std::move(action));
  } catch (const std::exception& error) {
    report({{}, "release of memory", error.what()});
  }
}

void end_block(spi::Block& block, BlockStore& blocks, bool release_blocks, ReclaimListener& listener,
               const std::shared_ptr<void>& keep) noexcept {
  auto segment = spi::Ref<spi::Segment>::adopt(block.segment);
  std::vector<spi::Point> points;
  try {
    points = block.take_points();
  } catch (const std::exception& error) {  // no memory for the list: leak rather than free too early
    report({{}, "Buffer::close", error.what()});
    (void)segment.detach();
  }
  const auto last = blocks.put(block);
  if (segment) release_after(std::move(segment), std::move(points), release_blocks, listener, keep);
}

void drain_releases(const spi::DeviceState& device) { reclaimer().drain(device); }
bool settle_releases(const spi::DeviceState& device) { return reclaimer().settle(device); }

}  // namespace weir::detail
