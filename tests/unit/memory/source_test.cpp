// SPDX-License-Identifier: Apache-2.0
// What a resource has of its own with the driver: who makes it, what is asked of it, how long it lives.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "stream/releases.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

/// Keeps a thousand bytes until it is trimmed.
class Keeping final : public spi::Source {
 public:
  explicit Keeping(int& alive) : alive_(alive) { ++alive_; }
  ~Keeping() override { --alive_; }
  void count(ResourceStats& stats) const noexcept override {
    stats.reserved += kept;
    stats.peak_reserved = std::max(stats.peak_reserved, stats.reserved);
  }
  void trim(std::size_t bytes_to_keep, bool may_wait) noexcept override {
    kept = std::min(kept, bytes_to_keep);
    waited = may_wait;
  }

  std::size_t kept = 1000;
  bool waited = false;

 private:
  int& alive_;
};

class Memory final : public spi::Segment {
 public:
  Memory(spi::DeviceState& of, std::size_t bytes) : bytes_(bytes) {
    device = &of;
    size = bytes;
    host = bytes_.data();
  }

 private:
  std::vector<std::byte> bytes_;
};

/// A device with two kinds of memory, of which one has sources.
struct Fixture : testing::Test {
  static inline std::vector<spi::Source*> asked;
  static inline int alive = 0, made = 0;
  static inline bool exhausted = false;

  static spi::Segment* reserve(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& /*shortage*/) {
    asked.push_back(request.source);
    return exhausted ? nullptr : new Memory(device, request.bytes);
  }
  static std::shared_ptr<spi::Source> source(spi::DeviceState& /*device*/, MemoryKind kind) {
    if (kind != MemoryKind::async) return nullptr;
    ++made;
    return std::make_shared<Keeping>(alive);
  }

  static constexpr spi::SegmentOps segments{.reserve = reserve, .source = source};
  static constexpr spi::Backend backend{
      .name = "fake", .devices = nullptr, .segments = &segments, .streams = nullptr, .survives_fork = true};

  spi::DeviceState& device = make_device();
  const Stream stream{host_device()};

  static spi::DeviceState& make_device() {
    static auto& made_once = [&]() -> spi::DeviceState& {
      auto& state = *new spi::DeviceState;
      state.backend = &backend;
      for (const MemoryKind kind : {MemoryKind::async, MemoryKind::device}) {
        state.kinds.push_back({.kind = kind, .host_accessible = true, .device_accessible = true, .alignment = 256});
      }
      return state;
    }();
    return made_once;
  }

  void SetUp() override {
    asked.clear();
    made = 0;
    exhausted = false;
  }
};
using Source = Fixture;

TEST_F(Source, IsMadeForKindsThatHaveOne) {
  const auto with = spi::make_segment_resource(device, MemoryKind::async, false);
  const auto without = spi::make_segment_resource(device, MemoryKind::device, false);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(with->stats().reserved, 1000U);
  EXPECT_EQ(without->stats().reserved, 0U);
  const Buffer a = with->allocate(100, stream), b = without->allocate(100, stream);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_NE(asked[0], nullptr);
  EXPECT_EQ(asked[1], nullptr);
  EXPECT_EQ(with->stats().reserved, 1100U);
  EXPECT_EQ(without->trim(0), 0U);
}

TEST_F(Source, OfAFactoryTakesItsPlace) {
  const auto own = std::make_shared<Keeping>(alive);
  const auto resource = spi::make_segment_resource(device, MemoryKind::async, false, 0, own);
  EXPECT_EQ(made, 0);
  (void)resource->allocate(100, stream);
  EXPECT_EQ(asked.at(0), own.get());
}

TEST_F(Source, IsTrimmed) {
  const auto own = std::make_shared<Keeping>(alive);
  const auto resource = spi::make_segment_resource(device, MemoryKind::async, false, 0, own);
  const Buffer buffer = resource->allocate(100, stream);
  EXPECT_EQ(resource->stats().peak_reserved, 1100U);
  EXPECT_EQ(resource->trim(600), 400U);
  EXPECT_EQ(own->kept, 600U);
  EXPECT_TRUE(own->waited);
  EXPECT_EQ(resource->trim(0), 600U);
  EXPECT_EQ(resource->stats().reserved, 100U);
}

// It would be waiting for itself.
TEST_F(Source, IsNotWaitedForInARelease) {
  const auto own = std::make_shared<Keeping>(alive);
  const auto resource = spi::make_segment_resource(device, MemoryKind::async, false, 0, own);
  own->waited = true;
  const Stream pending(host_device());
  bool may_end = false;
  std::mutex mutex;
  std::condition_variable changed;
  pending.call([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return may_end; });
  });
  detail::ReleaseQueue queue(device);
  detail::run_after(queue, {{spi::Kept(pending.state()), pending.state().issued()}}, [&] { (void)resource->trim(0); });
  {
    const std::scoped_lock lock(mutex);
    may_end = true;
    changed.notify_all();
  }
  queue.drain();
  EXPECT_FALSE(own->waited);
  EXPECT_EQ(own->kept, 0U);
}

TEST_F(Source, IsInTheMessageOfExhaustion) {
  const auto resource = spi::make_segment_resource(device, MemoryKind::async, false);
  exhausted = true;
  try {
    (void)resource->allocate(100, stream);
    ADD_FAILURE() << "was not refused";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().reserved, 1000U);
  }
}

TEST_F(Source, LivesAsLongAsTheResourceAndItsBuffers) {
  auto resource = spi::make_segment_resource(device, MemoryKind::async, false);
  Buffer buffer = resource->allocate(100, stream);
  resource.reset();
  EXPECT_EQ(alive, 1);
  buffer.close();
  detail::drain_releases(device);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace weir
