// SPDX-License-Identifier: Apache-2.0
// An honest end that has no room for the files of a packet. The peer uses what it was lent, and cannot know of that: so
// the buffers whose files were lost are refused, and nothing else ends.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "few_files.hpp"
#include "gate.hpp"
#include "hostile_peer.hpp"
#include "ipc/channel/watcher.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

using ipc::Channel;

constexpr auto limit = time_limit;
constexpr std::size_t bytes = 4096;

class ShortOfFiles : public testing::Test {
 protected:
  ShortOfFiles() : ShortOfFiles(Channel::make_sockets()) {}

  Buffer filled(const ResourcePtr& resource, std::uint32_t seed) const {
    Buffer made = resource->allocate(bytes, stream_);
    made.copy_from(pattern(bytes, seed), stream_);
    stream_.synchronize();
    return made;
  }
  /// Lend a buffer of the pool, which only the borrower has from then on.
  Buffer lend(std::uint32_t seed) {
    lender_.send(filled(pool_, seed), stream_, {}, limit);
    return borrower_.receive(stream_, limit).buffer;
  }
  /// Expect that the buffer holds what it was lent with, whatever the lender allocates now.
  void expect_kept(const Buffer& held, std::uint32_t seed) {
    std::vector<Buffer> others;
    for (std::uint32_t i = 0; i < 4; ++i) others.push_back(filled(pool_, 100 + i));
    Bytes seen(bytes);
    held.copy_to(std::span(seen), stream_);
    stream_.synchronize();
    EXPECT_BYTES(seen, pattern(bytes, seed));
  }
  /// Whether the next buffer is refused because this process had no room for its file.
  bool is_refused(Channel& channel) const {
    try {
      (void)channel.receive(stream_, limit);
      return false;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("raise that limit"), std::string_view::npos) << error.what();
      return error.code() == std::errc::too_many_files_open;
    }
  }
  void expect_lent(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (lender_.stats().lent != count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(lender_.stats().lent, count);
  }

  const Stream stream_{host_device()};
  const ResourcePtr plain_ = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  const ResourcePtr pool_ = make_pool(plain_, {.exportable = true});
  Channel lender_, borrower_;

 private:
  explicit ShortOfFiles(std::pair<spi::UniqueFd, spi::UniqueFd> sockets)
      : lender_(std::move(sockets.first)), borrower_(std::move(sockets.second)) {}
};

TEST_F(ShortOfFiles, ABorrowerKeepsWhatItHas) {
  Buffer held = lend(1);
  lender_.send(filled(plain_, 2), stream_, {}, limit);
  {
    const FewFiles none(0);
    EXPECT_TRUE(is_refused(borrower_));
  }
  expect_lent(1);  // what was refused goes back
  expect_kept(held, 1);
  const Buffer next = lend(3);
  expect_kept(next, 3);
  held.close();
  expect_lent(1);
}

TEST_F(ShortOfFiles, AChannelThatCannotBeMadeLeavesItsSocketConnected) {
  auto [mine, theirs] = Channel::make_sockets();
  const spi::UniqueFd copy = mine.duplicate();
  {
    const FewFiles none(0);
    try {
      const Channel made(std::move(mine));
      ADD_FAILURE() << "there was a file for it";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), std::errc::too_many_files_open) << error.what();
    }
  }
  EXPECT_EQ(::send(theirs.get(), "x", 1, MSG_NOSIGNAL), 1);
}

// Its own call reads nothing. The thread of the library does, from then on.
TEST_F(ShortOfFiles, ALenderKeepsWhatItLends) {
  auto sockets = Channel::make_sockets();
  Channel other(std::move(sockets.first)), far(std::move(sockets.second));
  other.send(filled(plain_, 0), stream_, {}, limit);  // keeps the thread
  lend(1).close();                                    // the borrower knows the pool's segment
  expect_lent(0);
  borrower_.send(filled(plain_, 2), stream_, {}, limit);
  const Buffer lent = filled(pool_, 3);
  {
    const FewFiles none(0);
    lender_.send(lent, stream_, {}, limit);
    (void)detail::channel::settle_channels();
    EXPECT_EQ(lender_.stats().waiting, 1U);
  }
  EXPECT_TRUE(is_refused(lender_));
  const Buffer held = borrower_.receive(stream_, limit).buffer;
  expect_kept(held, 3);
  expect_lent(1);
}

// A packet has several files, and there is room for some.
TEST_F(ShortOfFiles, BuffersWhoseFilesCameAreReceived) {
  constexpr std::size_t count = 4;
  std::vector<ipc::Parcel> parcels(count);
  for (std::uint32_t i = 0; i < count; ++i) parcels[i].buffer = filled(plain_, i);
  for (std::size_t left = 0; left <= count; ++left) {
    auto sockets = Channel::make_sockets();
    Channel from(std::move(sockets.first)), to(std::move(sockets.second));
    ASSERT_EQ(from.send(parcels, stream_, limit), count);
    std::optional<FewFiles> few(std::in_place, left);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i < left) {
        const Buffer held = to.receive(stream_, limit).buffer;
        few.reset();  // the packet has been read
        expect_kept(held, i);
      } else {
        EXPECT_TRUE(is_refused(to)) << i << " of " << left;
        few.reset();
      }
    }
  }
}

// The page is sent once, so nobody can wait for its points. Buffers without work behind them need none.
TEST_F(ShortOfFiles, BuffersBehindPointsOfALostPageAreRefused) {
  const Buffer held = lend(1);
  const Stream late(host_device());
  for (int i = 0; i < 2; ++i) {
    Gate gate;
    gate.hold(late);
    lender_.send(filled(pool_, 2), late, {}, limit);
    {
      std::optional<FewFiles> none;
      if (i == 0) none.emplace(0U);
      EXPECT_TRUE(is_refused(borrower_));
    }
    gate.open();
    late.synchronize();
    expect_lent(1);
  }
  expect_kept(held, 1);
  const Buffer next = lend(3);
  expect_kept(next, 3);
}

}  // namespace
}  // namespace weir::test
