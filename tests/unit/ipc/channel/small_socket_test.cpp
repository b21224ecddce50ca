// SPDX-License-Identifier: Apache-2.0
// Sockets that take less than the largest packet. Whatever a connection has to say goes over them, in more packets.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "busy.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "threads.hpp"
#include "weir/channel.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

using ipc::Channel;

constexpr std::chrono::seconds limit{30};

class SmallSockets : public testing::Test {
 protected:
  SmallSockets() : SmallSockets(small()) {}

  /// Each takes the smallest packets that the kernel allows.
  static std::pair<spi::UniqueFd, spi::UniqueFd> small() {
    auto sockets = Channel::make_sockets();
    const int least = 1;
    for (const auto* one : {&sockets.first, &sockets.second}) {
      EXPECT_EQ(::setsockopt(one->get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    }
    return sockets;
  }
  void expect_nothing_lent() const {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (lender_.stats().lent != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(lender_.stats().lent, 0U);
  }

  const Stream stream_{host_device()};
  const ResourcePtr pool_ =
      make_pool(make_resource(host_device(), MemoryKind::shared, {.exportable = true}), {.exportable = true});
  Channel lender_, borrower_;

 private:
  explicit SmallSockets(std::pair<spi::UniqueFd, spi::UniqueFd> sockets)
      : lender_(std::move(sockets.first), {.window = 65536}), borrower_(std::move(sockets.second), {.window = 65536}) {}
};

TEST_F(SmallSockets, ManyBuffersComeBackAtOnce) {
  std::vector<Buffer> borrowed;
  for (int i = 0; i < 2000; ++i) {
    lender_.send(pool_->allocate(256, stream_), stream_, {}, limit);
    borrowed.push_back(borrower_.receive(stream_, limit).buffer);
  }
  const auto busy = std::make_shared<Busy>();  // keeps the thread of the channels from reading meanwhile
  auto sockets = Channel::make_sockets();
  const auto other = detail::channel::make_link(std::move(sockets.first), 1);
  other->observe(busy);
  busy->begun.acquire();
  borrowed.clear();
  busy->goes_on.release();
  expect_nothing_lent();
}

TEST_F(SmallSockets, ManyBuffersAreSentInACall) {
  constexpr std::size_t count = 500;
  std::vector<ipc::Parcel> parcels(count);
  for (ipc::Parcel& one : parcels) one = {pool_->allocate(256, stream_), std::vector<std::byte>(200)};
  {
    const Thread sending([&] { EXPECT_NO_THROW(EXPECT_EQ(lender_.send(parcels, stream_, limit), count)); });
    for (std::size_t i = 0; i < count; ++i) (void)borrower_.receive(stream_, limit);
  }
  expect_nothing_lent();
}

}  // namespace
}  // namespace weir::test
