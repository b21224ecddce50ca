// SPDX-License-Identifier: Apache-2.0
// What a channel reports. The sink is the user's, and may ask the channel of which it is told.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "fds.hpp"
#include "few_files.hpp"
#include "hostile_peer.hpp"

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

}  // namespace
}  // namespace weir::test
