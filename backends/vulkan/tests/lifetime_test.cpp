// SPDX-License-Identifier: Apache-2.0
// Streams and buffers that go while the device still works; processes that fork.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "app.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::vulkan::test {

class Lifetime : public OnApp {};

TEST_F(Lifetime, WorkOfADestroyedStreamStillRuns) {
  const auto resource = make_device_resource(device());  // so that reading it goes through the queue
  const Stream reader{device()};
  Buffer buffer = resource->allocate(std::size_t{4} << 20, reader);
  buffer.fill(std::byte{1}, reader);
  reader.synchronize();
  {
    const Stream stream{device()};
    const std::uint64_t pattern = 0x0807060504030201;  // uses scratch memory
    // Not through the buffer, which would keep the stream: so nobody flushes it.
    stream.state().put(spi::FillOp{buffer.location(), buffer.size(), pattern, 8});
  }
  std::vector<std::byte> bytes(8);
  buffer.copy_to(std::span(bytes), reader);
  reader.synchronize();  // same queue: behind the stream that is gone
  EXPECT_EQ(bytes[7], std::byte{8});
}

// Where none is left, each fill would be submitted by itself.
TEST_F(Lifetime, ScratchMemoryOfABatchServesALaterOne) {
  constexpr std::uint64_t pattern = 0x0807060504030201;
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device())->allocate(std::size_t{1} << 20, stream);
  const auto fill = [&] { buffer.fill_pattern(pattern, 8, 0, buffer.size(), stream); };
  for (int i = 0; i < 100; ++i) {
    fill();
    stream.synchronize();
  }
  calls().clear();
  for (int i = 0; i < 3; ++i) fill();
  stream.synchronize();
  EXPECT_EQ(calls()["vkQueueSubmit"], 1);
}

TEST_F(Lifetime, AStreamMayGoWhileAnotherWaitsForIt) {
  const Stream stays{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(std::size_t{8} << 20, stays);
  for (int i = 0; i < 50; ++i) {
    const Stream goes{device()};
    buffer.fill(static_cast<std::uint8_t>(i), goes);
    stays.wait(goes.record());
    buffer.fill(static_cast<std::uint8_t>(i), 0, 64, stays);
    stays.flush();
  }
  stays.synchronize();
}

TEST_F(Lifetime, ThingsOfDeadStreamsAreCollectedOnTheWay) {
  const auto resource = make_device_resource(device());
  for (int i = 0; i < 100; ++i) {
    const Stream stream{device()};
    Buffer buffer = resource->allocate(64, stream);
    buffer.fill(std::byte{1}, stream);
  }
  const Stream last{device()};
  last.synchronize();
  resource->trim(0);
  EXPECT_GE(calls()["vkFreeMemory"], 100);
  calls().clear();
  for (int i = 0; i < 20; ++i) const Stream another{device()};
  EXPECT_LT(calls()["vkCreateSemaphore"], 5);  // used again
}

TEST_F(Lifetime, WhatStreamsLeaveBehindStaysUntilItIsOver) {
  constexpr std::size_t part = std::size_t{16} << 20;  // takes a while
  const auto resource = make_device_resource(device());
  const Stream reader{device()};
  Buffer buffer = resource->allocate(4 * part, reader);
  for (std::size_t i = 0; i < 4; ++i) {
    const Stream stream{device()};  // its beginning, and its end, look for what is over
    stream.state().put(spi::FillOp{{buffer.location().segment, i * part}, part, 0x0807060504030201, 8});
  }
  std::vector<std::byte> bytes(8);
  buffer.copy_to(std::span(bytes), reader, 4 * part - 8);
  reader.synchronize();
  EXPECT_EQ(bytes[7], std::byte{8});
}

TEST_F(Lifetime, AHeldStreamMayBeDropped) {
  weir::test::Gate gate;
  const auto resource = make_readback_resource(device());
  Buffer buffer = resource->allocate(64, Stream{host_device()});
  {
    const Stream stream{device()};
    gate.hold(stream);
    buffer.fill(std::byte{9}, stream);
  }
  buffer.close();
  EXPECT_EQ(calls()["vkFreeMemory"], 0);
  gate.open();
  resource->trim(0);
  EXPECT_EQ(calls()["vkFreeMemory"], 1);
}

TEST_F(Lifetime, AForkedChildGetsAClearError) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
#endif
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(64, stream);
  stream.synchronize();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int wrong = 0;
    const auto refused = [&](auto&& action) {
      try {
        action();
        ++wrong;
      } catch (const Error& error) {
        if (error.code() != Errc::unsupported || !strstr(error.what(), "fork")) ++wrong;
      }
    };
    refused([&] { (void)Stream{device()}; });
    refused([&] { (void)resource->try_allocate(64, stream); });
    refused([&] { buffer.fill(std::byte{1}, stream); });
    buffer.close();
    _exit(wrong);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace weir::vulkan::test
