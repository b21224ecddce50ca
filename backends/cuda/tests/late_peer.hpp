// SPDX-License-Identifier: Apache-2.0
#pragma once
// A peer that lends what it has not written yet.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/stream.hpp"
#include "gate.hpp"
#include "native.hpp"
#include "sink.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {

/// Its work is done once its gate is opened. It may die before.
struct LatePeer {
  LatePeer() { gate.hold(late); }
  void lend() { lender.send(lent, late); }
  void die() const { ASSERT_EQ(::shutdown(dies.get(), SHUT_RDWR), 0); }

  std::pair<spi::UniqueFd, spi::UniqueFd> sockets = ipc::Channel::make_sockets();
  const spi::UniqueFd dies = sockets.first.duplicate();
  ipc::Channel lender{std::move(sockets.first)}, borrower{std::move(sockets.second)};
  const Stream late{host_device()};
  test::Gate gate;
  const Buffer lent = host::make_shared_resource()->allocate(64, late);
};

/// A borrowed stream whose work waits for such a peer.
class BehindALatePeer : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    make_room_for_streams();
    late_ = cuda::borrow(gpu(), native_.emplace().get());
    peer_.lend();
    got_ = peer_.borrower.receive(*late_).buffer;
  }
  void TearDown() override {
    peer_.gate.open();
    if (!late_) return;
    const auto& depends = static_cast<cuda::GpuStream&>(late_->state()).dependences();
    while (depends.any()) std::this_thread::yield();  // else the peer could end before it has said that it is done
    got_.close();
    late_.reset();
  }
  /// Of which each stream is lost, and its peer's point, and nothing else.
  void expect_lost(const std::vector<Event>& events) {
    using namespace std::chrono_literals;
    const std::size_t lost = events.size() + 1;
    peer_.die();
    for (const Event& each : events) {
      EXPECT_EQ(each.wait(10s), WaitStatus::lost);
      EXPECT_FALSE(each.done());
    }
    EXPECT_EQ(test::await_reports(lost).size(), lost);
  }

  /// When more streams are alive than ever before, the driver waits for all of them to make room. It keeps the room.
  static void make_room_for_streams() { const std::list<NativeStream> streams(128); }

  /// Return memory on `taker` that the late stream used last.
  [[nodiscard]] Buffer take_memory_of_the_late_one(const Stream& taker) {
    pool_ = make_pool(cuda::make_device_resource(gpu()),
                      {.limit = 4 << 20, .segment_bytes = 4 << 20, .patience = std::chrono::nanoseconds{0}});
    Buffer used = pool_->allocate(4 << 20, *late_);
    used.fill(std::byte{1}, *late_);
    used.close();
    Buffer next = pool_->allocate(4 << 20, taker);
    EXPECT_EQ(pool_->pool_stats().waits, 1U);
    return next;
  }

  PoolPtr pool_;
  std::optional<NativeStream> native_;
  LatePeer peer_;
  std::optional<Stream> late_;
  Buffer got_;
};

}  // namespace weir::cuda_test
