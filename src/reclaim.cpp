// SPDX-License-Identifier: Apache-2.0
#include "reclaim.hpp"

#include <algorithm>
#include <condition_variable>
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
  spi::Ref<spi::Segment> segment;
  std::vector<spi::Point> points;
  ReclaimListener* listener;
  std::shared_ptr<void> keep;

  bool passed() {
    std::erase_if(points, [](const spi::Point& p) { return p.stream->lost() || p.stream->reached(p.value); });
    return points.empty();
  }
  void release() noexcept {
    const auto bytes = segment->size;
    segment = {};
    listener->segment_released(bytes);
    keep.reset();
  }
};

// One list and one thread for all devices; the thread exists while there is something to wait for.
class Reclaimer {
 public:
  void add(Item item) {
    const std::scoped_lock lock(mutex_);
    items_.push_back(std::move(item));
    ++pending_[&device(items_.back())];
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
  static const spi::DeviceState& device(const Item& item) { return *item.segment->device; }

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
          done.push_back(&device(item));
          item.release();
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

// Order the driver's free on one of the streams behind all the others. False when the driver cannot.
bool release_in_order(Item& item) {
  for (const spi::Point& home : item.points) {
    if (home.stream->lost() || &home.stream->device() != item.segment->device) continue;
    if (!item.segment->frees_in_order()) return false;
    for (const spi::Point& other : item.points) {
      if (&other != &home && !other.stream->lost()) home.stream->put(spi::WaitOp{other.stream, other.value});
    }
    home.stream->put(spi::FreeOp{item.segment});
    item.release();
    return true;
  }
  return false;
}

}  // namespace

void release_after(spi::Ref<spi::Segment> segment, std::vector<spi::Point> points, bool release_blocks,
                   ReclaimListener& listener, std::shared_ptr<void> keep) noexcept {
  Item item{std::move(segment), std::move(points), &listener, std::move(keep)};
  try {
    try {
      if (release_in_order(item)) return;
    } catch (const Error&) {  // that stream is lost: its points count as passed
    }
    if (!release_blocks && item.passed()) return item.release();
    reclaimer().add(std::move(item));
  } catch (const std::exception& error) {
    // Freed too early is worse than never: what cannot be handed over is leaked, and said.
    (void)item.segment.detach();
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
