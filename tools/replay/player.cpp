// SPDX-License-Identifier: Apache-2.0
#include "replay/player.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <thread>
#include <utility>

#include "replay/clock.hpp"
#include "replay/loop.hpp"
#include "weir/error.hpp"

namespace weir::replay {
namespace {

constinit std::atomic<Failures*> reported_to{nullptr};

void note_report(const Failure& failure) noexcept {
  Failures* const failures = reported_to.load(std::memory_order_acquire);
  if (!failures) return;
  try {
    failures->add(std::string(failure.where) + ": " + std::string(failure.message));
  } catch (const std::exception&) {
    std::terminate();  // there is no memory to say that something failed
  }
}

/// While this object exists, failures that are reported to the sink, because nobody can catch them, count as failures
/// of the pass.
class Listening {
 public:
  explicit Listening(Failures& failures) {
    reported_to.store(&failures, std::memory_order_release);
    previous_ = set_failure_sink(&note_report);
  }
  ~Listening() {
    set_failure_sink(previous_);
    reported_to.store(nullptr, std::memory_order_release);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  FailureSink previous_;
};

/// Threads that begin together. If one of them cannot be started, none does any work.
class Crew {
 public:
  template <class Work>
  Crew(std::size_t count, Work work) {
    try {
      for (std::size_t i = 0; i < count; ++i) {
        threads_.emplace_back([this, work, i] {
          if (told()) work(i);
        });
      }
    } catch (...) {
      tell(false);
      join();
      throw;
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  void run() {
    tell(true);
    join();
  }

 private:
  enum class Word { none, go, leave };
  bool told() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return word_ != Word::none; });
    return word_ == Word::go;
  }
  void tell(bool go) {
    const std::scoped_lock lock(mutex_);
    word_ = go ? Word::go : Word::leave;
    changed_.notify_all();
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Word word_ = Word::none;
  std::vector<std::thread> threads_;
};

std::vector<std::vector<std::uint32_t>> by_thread(const Trace& trace, std::size_t threads) {
  std::vector<std::vector<std::uint32_t>> lists(threads);
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    lists[trace.operations[i].thread % threads].push_back(static_cast<std::uint32_t>(i));
  }
  return lists;
}

}  // namespace

const Pool* find_pool(const MemoryResource& resource) {
  if (const auto* pool = dynamic_cast<const Pool*>(&resource)) return pool;
  const ResourcePtr next = resource.upstream();
  return next ? find_pool(*next) : nullptr;
}

const MemoryResource& bottom_of(const MemoryResource& resource) {
  const ResourcePtr next = resource.upstream();
  return next ? bottom_of(*next) : resource;
}

Player::Player(const Trace& trace, ResourcePtr resource, bool threads)
    : trace_(trace),
      resource_(std::move(resource)),
      threads_(threads ? std::clamp<std::size_t>(trace.threads, 1, most_threads) : 1),
      buffers_(trace.buffers) {
  const auto streams = std::clamp<std::size_t>(trace.streams, 1, most_streams);
  for (std::size_t i = 0; i < streams; ++i) streams_.emplace_back(resource_->device());
}

template <class Clock>
Pass Player::play_with() {
  const Pool* const pool = find_pool(*resource_);
  const auto figures = [pool] { return pool ? pool->pool_stats() : PoolStats{}; };
  Pass pass;
  pass.clock = Clock::name;
  pass.times.assign(trace_.operations.size(), Pass::not_done);
  std::vector<std::atomic<std::uint32_t>> turns(threads_ > 1 ? buffers_.size() : 0);
  Failures failures;
  const Listening listening(failures);
  const Stage stage{trace_, *resource_, streams_, buffers_, pass.times, turns, failures};
  const auto lists = threads_ > 1 ? by_thread(trace_, threads_) : std::vector<std::vector<std::uint32_t>>{};
  const auto before = figures();
  const auto asked_before = bottom_of(*resource_).stats().allocations;
  const auto cost = stamp_cost<Clock>();

  const Calibration<Clock> calibration;
  std::uint64_t begin = 0;
  if (threads_ == 1) {
    begin = SystemClock::begin();
    perform_all<Clock>(stage);
  } else {
    Crew crew(threads_, [&](std::size_t i) { perform_some<Clock>(stage, lists[i]); });
    begin = SystemClock::begin();
    crew.run();
  }
  pass.wall = SystemClock::end() - begin;
  const double tick = calibration.nanoseconds_per_tick();

  pass.stamp_cost = static_cast<double>(cost) * tick;
  for (auto& time : pass.times) {
    if (time == Pass::not_done) continue;
    time = time < cost ? 0 : static_cast<std::uint64_t>(static_cast<double>(time - cost) * tick + 0.5);
  }
  const auto after = figures();
  pass.peak_reserved = resource_->stats().peak_reserved;
  pass.driver_allocations = bottom_of(*resource_).stats().allocations - asked_before;
  pass.grown = after.grown - before.grown;
  pass.given_back = after.given_back - before.given_back;
  pass.waits = after.waits - before.waits;
  for (Buffer& buffer : buffers_) buffer.close();
  for (const Stream& stream : streams_) stream.synchronize();
  failures.move_to(pass);
  return pass;
}

Pass Player::play() { return CycleClock::usable() ? play_with<CycleClock>() : play_with<SystemClock>(); }

}  // namespace weir::replay
