// SPDX-License-Identifier: Apache-2.0
#pragma once
// A peer that lends what it has not written yet.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>

#include "gate.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"

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

}  // namespace weir::cuda_test
