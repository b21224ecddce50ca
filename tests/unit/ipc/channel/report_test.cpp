// SPDX-License-Identifier: Apache-2.0
// What a channel reports. The sink is the user's, and may ask the channel of which it is told.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "busy.hpp"
#include "fds.hpp"
#include "few_files.hpp"
#include "hostile_peer.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "on_report.hpp"
#include "refusing_device.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using ipc::Channel;

constexpr auto limit = time_limit;

bool is_attended() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "weir channels") return true;
  }
  return false;
}

/// Its sink asks the channel for its statistics. No file is left for the thread that attends to channels, which is told.
class ChannelReports : public HostilePeer {
 protected:
  ChannelReports() {
    channel = &channel_;
    reports = 0;
    before_ = set_failure_sink(&ask);
  }
  ~ChannelReports() override { set_failure_sink(before_); }
  static void ask(const Failure& /*failure*/) noexcept {
    (void)channel->stats();
    ++reports;
  }
  /// Wait until the thread that attends to channels has had nothing to do for long enough.
  static void await_its_end() {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (is_attended() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_FALSE(is_attended());
  }

  static inline const Channel* channel = nullptr;
  static inline std::atomic<int> reports{0};

 private:
  FailureSink before_;
};

TEST_F(ChannelReports, OfTheEndOfASegment) {
  peer_.greet();
  Buffer buffer = shared();
  channel_.send(buffer, stream_, {}, limit);
  const std::uint64_t number = peer_.next_grant().number;
  PacketWriter packet;
  std::span<const std::uint64_t> rest(&number, 1);
  ASSERT_TRUE(packet.add(rest));
  peer_.say(packet);
  expect_nothing_lent();
  await_its_end();
  settle_files();
  const FewFiles none(0);
  buffer.close();
  EXPECT_EQ(channel_.stats().known, 0U);
  EXPECT_EQ(reports, 1);
}

// The sink is called when others can send again, and this thread, too.
TEST_F(HostilePeer, IsSentMoreByTheFailureSink) {
  peer_.greet();
  const RefusedStream refused;
  const Buffer one = shared(), other = shared();
  const OnReport taken([&] { EXPECT_NO_THROW(channel_.send(other, refused.get(), {}, limit)); });
  channel_.send(one, refused.get(), {}, limit);
  EXPECT_EQ(taken.count(), 1);
  EXPECT_EQ(channel_.stats().lent, 2U);
}

/// Its peer gives something back, the end of which is reported, and lends two buffers. The sink receives one.
class ReadingReports : public HostilePeer {
 protected:
  explicit ReadingReports(std::pair<spi::UniqueFd, spi::UniqueFd> sockets = Channel::make_sockets())
      : link_(make_link(std::move(sockets.first), 16)), far_(std::move(sockets.second)) {
    far_.greet();
  }
  ~ReadingReports() override { link_->close(); }
  void lend_and_borrow() {
    const Buffer buffer = shared();
    {
      static constexpr int marked = 0;
      const std::shared_ptr<const void> mark(&marked, [](const int*) { report({{}, "a mark", "ends"}); });
      link_->send(std::array{Outgoing{&buffer, {}, ipc::Access::read_write, mark}}, stream_, Deadline(limit));
    }
    const std::uint64_t number = far_.next_grant().number;
    std::span<const std::uint64_t> rest(&number, 1);
    PacketWriter back, lends;
    ASSERT_TRUE(back.add(rest));
    far_.say(back);
    const auto wire = honest();
    const auto file = reserved_memory_file(wire.segment_size);
    ASSERT_TRUE(lends.add(Segment{1, detail::encode(wire)}));
    for (const std::uint64_t grant : {1, 2}) ASSERT_TRUE(lends.add(Grant{grant, 1, 0, 8, {}, {}}));
    far_.say(lends, std::array{file.get()});
  }
  void receive() { EXPECT_NO_THROW((void)link_->receive(stream_, Deadline(limit))); }

  const std::shared_ptr<Link> link_;
  Peer far_;
  const OnReport taken_{[this] { receive(); }};
};

TEST_F(ReadingReports, OfAThreadThatReceives) {
  const auto busy = std::make_shared<Busy>();
  link_->observe(busy);
  busy->begun.acquire();
  lend_and_borrow();
  receive();
  EXPECT_EQ(taken_.count(), 1);
  busy->goes_on.release();
}

TEST_F(ReadingReports, OfTheThreadThatAttends) {
  lend_and_borrow();
  while (taken_.count() == 0) std::this_thread::yield();
  receive();
}

TEST_F(ReadingReports, OfAThreadThatLooks) {
  const auto busy = std::make_shared<Busy>();
  link_->observe(busy);
  busy->begun.acquire();
  lend_and_borrow();
  link_->look();
  EXPECT_EQ(taken_.count(), 1);
  receive();
  busy->goes_on.release();
}

}  // namespace
}  // namespace weir::test
