// SPDX-License-Identifier: Apache-2.0
// What a debug resource keeps, for how long, and what it costs upstream. What it finds:
// conformance/debug_test.cpp.

#include "weir/adaptors/debug.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "doomed.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "memory/block_store.hpp"
#include "scripted.hpp"
#include "sink.hpp"
#include "stream/releases.hpp"
#include "threads.hpp"
#include "weir/adaptors/limiting.hpp"

namespace weir::test {
namespace {

/// Memory that its driver may refuse to show to the host.
class Refusing final : public MemoryResource, public detail::ReleaseListener {
 public:
  Refusing()
      : MemoryResource(host_device(), "refusing", {MemoryKind::pageable, true, true, false}),
        blocks_(host_device().state()) {}
  [[nodiscard]] ResourceStats stats() const override { return {}; }
  std::size_t trim(std::size_t) override {
    blocks_.queue().drain();
    return 0;
  }
  bool refuses = false;
  std::size_t released = 0;

 private:
  struct Memory final : spi::Segment {
    explicit Memory(const Refusing& resource) : of(resource) {
      device = &host_device().state();
      host = bytes.data();
      size = bytes.size();
    }
    void before_host_read(std::size_t, std::size_t) override {
      if (of.refuses) throw Error(Errc::out_of_memory, "refused by hand");
    }
    const Refusing& of;
    std::array<std::byte, 65536> bytes{};
  };
  spi::Block* do_allocate(const spi::Request& request, Shortage&) override {
    spi::Block& block = blocks_.take(*this, *request.stream);
    block.segment = new Memory(*this);
    block.size = request.bytes;
    return &block;
  }
  void do_deallocate(spi::Block& block) noexcept override { blocks_.end(block, false, *this); }
  void segment_released(std::size_t) noexcept override { ++released; }

  detail::BlockStore blocks_;
};

class Debugging : public testing::Test {
 protected:
  static bool all(const std::byte* begin, std::size_t count, unsigned value) {
    return std::all_of(begin, begin + count, [&](std::byte byte) { return byte == std::byte(value); });
  }
  static void settle() { detail::drain_releases(host_device().state()); }

  std::shared_ptr<Scripted> upstream = std::make_shared<Scripted>();
  Stream stream{host_device()};
};

TEST_F(Debugging, GuardsThatFitNowhereAreRefused) {
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2, SIZE_MAX / 4}) {
    EXPECT_THROW((void)make_debug(upstream, {.guard_bytes = bytes})->allocate(100, stream), OutOfMemory) << bytes;
  }
}

TEST_F(Debugging, GuardsLieAroundTheBuffer) {
  const auto checked = make_debug(upstream, {.guard_bytes = 13});
  const Buffer buffer = checked->allocate(100, stream, 4096);
  const std::byte* const at = buffer.host_data();
  EXPECT_EQ(buffer.device_address() % 4096, 0U);
  EXPECT_TRUE(all(at - 16, 16, 0xfd)) << "13, rounded up";
  EXPECT_TRUE(all(at, 100, 0xcd));
  EXPECT_TRUE(all(at + 100, 16, 0xfd));
  EXPECT_EQ(upstream->asked()[0].bytes, 4096 + 100 + 16U);
  EXPECT_EQ(upstream->asked()[0].alignment, 4096U);
  EXPECT_EQ(checked->stats().in_use, 100U);
  EXPECT_EQ(checked->name(), "debug(scripted)");
  EXPECT_ERROR(make_debug(nullptr), Errc::invalid_argument, "upstream");
}

TEST_F(Debugging, ClosedMemoryIsKeptFullOfPoison) {
  const auto checked = make_debug(upstream);
  Buffer buffer = checked->allocate(1000, stream);
  const std::byte* const at = buffer.host_data();
  const Buffer share = buffer.share();
  buffer.close();
  EXPECT_TRUE(all(at, 1000, 0xcd)) << "it has another owner";
  const_cast<Buffer&>(share).close();
  settle();
  EXPECT_TRUE(all(at - 256, 1512, 0xdd));
  EXPECT_EQ(checked->stats().live_buffers, 0U);
  EXPECT_EQ(upstream->stats().live_buffers, 1U);
  EXPECT_GT(checked->trim(0), 0U);
  EXPECT_EQ(upstream->stats().live_buffers, 0U);
}

TEST_F(Debugging, TheOldestGoesFirst) {
  const auto checked = make_debug(upstream, {.quarantine_bytes = 4 * 1512});
  std::vector<std::byte*> memory;
  for (int i = 0; i < 6; ++i) {
    Buffer buffer = checked->allocate(1000, stream);
    memory.push_back(buffer.host_data());
    buffer.close();
    settle();
    EXPECT_EQ(upstream->stats().live_buffers, static_cast<std::size_t>(std::min(i + 1, 4)));
  }
  memory[2][7] = std::byte{1};  // the oldest that is kept
  EXPECT_TRUE(take_reports().empty());
  (void)checked->allocate(1000, stream);
  settle();
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].message.rfind("buffer 3 of 1000 bytes", 0), 0U) << reports[0].message;
}

TEST_F(Debugging, WhatIsTooLargeOrNotPoisonedIsNotKept) {
  const auto small = make_debug(upstream, {.quarantine_bytes = 1511});
  (void)small->allocate(1000, stream);
  settle();
  EXPECT_EQ(upstream->stats().live_buffers, 0U);
  const auto plain = make_debug(upstream, {.poison = false});
  Buffer buffer = plain->allocate(1000, stream);
  buffer.host_data()[1000] = std::byte{1};
  buffer.host_data()[999] = std::byte{0xcc};
  buffer.close();
  settle();
  EXPECT_EQ(upstream->stats().live_buffers, 0U);
  EXPECT_EQ(take_reports().size(), 1U) << "the guards are there";
}

TEST_F(Debugging, WhatIsTooLargeDrivesNothingOut) {
  const auto checked = make_debug(upstream, {.quarantine_bytes = 2 * 1512});
  for (const std::size_t bytes : {1000, 1000, 5000}) {
    checked->allocate(bytes, stream).close();
    settle();
  }
  EXPECT_EQ(upstream->stats().live_buffers, 2U);
}

TEST_F(Debugging, AnExhaustedUpstreamGetsWhatIsKept) {
  const auto limited = make_limiting(upstream, 4000);
  const auto checked = make_debug(limited);
  Buffer live = checked->allocate(1000, stream);
  checked->allocate(1000, stream).close();
  settle();
  EXPECT_EQ(limited->stats().in_use, 2 * 1512U);
  EXPECT_TRUE(checked->try_allocate(1900, stream).has_value());
  settle();
  EXPECT_FALSE(checked->try_allocate(2500, stream).has_value());
  try {
    (void)checked->allocate(2500, stream);
    ADD_FAILURE() << "beyond the limit";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().in_use, 1000U);
    EXPECT_EQ(error.shortage().limit, 4000U);
    EXPECT_EQ(error.shortage().requested, 2500U);
  }
}

TEST_F(Debugging, TheEndOfTheResourceLooksAtWhatIsKept) {
  auto checked = make_debug(upstream);
  Buffer first = checked->allocate(1000, stream), second = checked->allocate(1000, stream);
  std::byte* const at = first.host_data();
  first.close();
  settle();
  at[5] = std::byte{0};
  checked.reset();
  EXPECT_TRUE(take_reports().empty()) << "the second buffer keeps it";
  second.host_data()[-3] = std::byte{0};
  second.close();
  settle();
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_NE(reports[0].message.find("buffer 2 of 1000 bytes"), std::string::npos) << reports[0].message;
  EXPECT_NE(reports[1].message.find("written after it was closed, the first at offset 5"), std::string::npos)
      << reports[1].message;
  EXPECT_EQ(upstream->stats().live_buffers, 0U);
}

TEST_F(Debugging, TheEndDoesNotWaitForPendingWork) {
  auto checked = make_debug(upstream);
  Gate gate;
  Buffer buffer = checked->allocate(1000, stream);
  gate.hold(stream);
  buffer.fill(std::uint8_t{1}, stream);
  buffer.close();
  checked.reset();
  EXPECT_EQ(upstream->stats().live_buffers, 1U);
  gate.open();
  stream.synchronize();
  settle();
  EXPECT_EQ(upstream->stats().live_buffers, 0U);
}

TEST_F(Debugging, MemoryThatCannotBePreparedGoesBack) {
  const auto checked = make_debug(upstream);
  Stream busy(host_device());
  Gate gate;
  gate.hold(busy);
  const Buffer pending = checked->allocate(100, busy);  // prepared in order
  gate.open();
  busy.synchronize();
  EXPECT_TRUE(all(pending.host_data(), 100, 0xcd));
  EXPECT_TRUE(all(pending.host_data() + 100, 256, 0xfd));
  DoomedPoint point;
  const Stream lost(host_device());
  lost.wait(point.event());
  point.fail();
  EXPECT_EQ(await_reports(3).size(), 3U);
  EXPECT_ERROR(checked->allocate(100, lost), Errc::peer_gone, "is lost");
  upstream->follow([](const auto&) -> bool { throw Error(Errc::device_lost, "gone"); });
  EXPECT_ERROR(checked->allocate(100, stream), Errc::device_lost, "gone");
  EXPECT_EQ(upstream->stats().live_buffers, 1U);
  EXPECT_EQ(checked->stats().live_buffers, 1U);
}

TEST_F(Debugging, SizesThatOverflowWithTheirGuardsAreRefused) {
  const auto checked = make_debug(upstream, {.guard_bytes = SIZE_MAX / 4});
  EXPECT_OUT_OF_MEMORY(checked->allocate(SIZE_MAX / 4, stream), "debug(scripted)");
  EXPECT_TRUE(upstream->asked().empty());
}

TEST_F(Debugging, EightThreads) {
  const auto checked = make_debug(upstream, {.quarantine_bytes = 20000});
  std::vector<Thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Stream own(host_device());
      for (std::size_t i = 0; i < 300; ++i) {
        Buffer buffer = checked->allocate(1 + (i * 31 + t) % 3000, own);
        buffer.fill(static_cast<std::uint8_t>(t), own);
        if (i == 100) {
          own.synchronize();
          buffer.host_data()[buffer.size()] = std::byte{0};
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  checked->trim(0);
  EXPECT_EQ(checked->violations(), 8U);
  EXPECT_EQ(take_reports().size(), 8U);
  EXPECT_EQ(upstream->stats().live_buffers, 0U);
}

TEST_F(Debugging, MemoryThatTheDriverDoesNotShowGoesBackUnseen) {
  const auto refusing = std::make_shared<Refusing>();
  const auto checked = make_debug(refusing);
  Buffer buffer = checked->allocate(100, stream);
  refusing->refuses = true;
  buffer.close();
  settle();
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("could not be looked at: refused by hand"), std::string::npos)
      << reports[0].message;
  refusing->trim(0);
  EXPECT_EQ(refusing->released, 1U);
}

}  // namespace
}  // namespace weir::test
