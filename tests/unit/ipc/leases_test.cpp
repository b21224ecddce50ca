// SPDX-License-Identifier: Apache-2.0
// What those who have a lease can do with it: keep it, and nothing else.
#include "ipc/leases.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "busy_pipe.hpp"
#include "fds.hpp"
#include "spawn.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::test {
namespace {

using spi::UniqueFd;

class Leases : public testing::Test {
 protected:
  void TearDown() override { EXPECT_FDS(before_); }

  /// On memory that tells its end, which is the lease's, to `ends`.
  [[nodiscard]] UniqueFd leased(std::function<void()> ends) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return detail::grant_lease(Buffer::from_handle(host_device(), address, memory_.size(), std::move(ends), stream_))
        .trust();
  }
  [[nodiscard]] UniqueFd leased(std::atomic<bool>& ended) {
    ended = false;
    return leased([&] { ended = true; });
  }
  static void wait_for(const std::atomic<bool>& ended) {
    while (!ended) std::this_thread::yield();  // the watchdog ends it if that never is
  }

 private:
  std::size_t before_ = open_fds();
  std::array<std::byte, 64> memory_{};
  Stream stream_{host_device()};
};

TEST_F(Leases, EndWithTheLastCopy) {
  std::atomic<bool> ended;
  UniqueFd lease = leased(ended), copy = lease.duplicate();
  UniqueFd opened_again = reopened(lease.get(), O_WRONLY);
  lease.reset();
  copy.reset();
  detail::settle_leases();
  EXPECT_FALSE(ended);
  opened_again.reset();
  wait_for(ended);
}

TEST_F(Leases, AreNotEndedByWhatASharerDoes) {
  std::atomic<bool> ended, other_ended;
  UniqueFd lease = leased(ended);
  const auto lasts = [&](const char* what) {
    UniqueFd other = leased(other_ended);
    other.reset();
    wait_for(other_ended);  // who hears of ends is there, and has heard of all that came before
    EXPECT_FALSE(ended) << what;
  };
  EXPECT_EQ(::shutdown(lease.get(), SHUT_RDWR), -1);
  EXPECT_EQ(errno, ENOTSOCK);
  lasts("shutdown");
  ASSERT_NE(::fcntl(lease.get(), F_SETFL, O_NONBLOCK), -1);
  const std::array<char, 4096> junk{};
  std::size_t written = 0;
  while (::write(lease.get(), junk.data(), junk.size()) > 0) ++written;
  EXPECT_GE(written, 1U);
  lasts("junk, as much as there is room for");
  EXPECT_GT(::fcntl(lease.get(), F_SETPIPE_SZ, 1 << 20), 0);
  while (::write(lease.get(), junk.data(), junk.size()) > 0) {
  }
  lasts("more room, and junk");
  reopened(lease.get(), O_RDONLY).reset();
  lasts("a reader that comes and goes");
  EXPECT_EQ(::flock(lease.get(), LOCK_EX), 0);
  lasts("a lock");
  lease.reset();
  wait_for(ended);
}

TEST_F(Leases, CarryNothing) {
  std::atomic<bool> ended;
  UniqueFd lease = leased(ended);
  char byte = 0;
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int itself = lease.get();
  std::memcpy(CMSG_DATA(header), &itself, sizeof itself);
  EXPECT_EQ(::sendmsg(lease.get(), &message, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, ENOTSOCK);
  lease.reset();
  wait_for(ended);
}

TEST_F(Leases, AReaderKeepsNone) {
  std::atomic<bool> ended;
  UniqueFd lease = leased(ended);
  const UniqueFd reads = reopened(lease.get(), O_RDONLY);
  lease.reset();
  wait_for(ended);
}

// Whoever may open the pipe again can keep it busy once the lease has ended: the exporter's own end then blocks whoever
// closes it.
TEST_F(Leases, ThatAreKeptBusyKeepNobodyWaiting) {
  std::promise<void> begun, go_on;
  std::atomic<bool> second_ended, third_ended;
  UniqueFd first = leased([&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  UniqueFd second = leased(second_ended), third = leased(third_ended);
  first.reset();
  begun.get_future().wait();  // nobody hears of the second's end before it is busy
  UniqueFd reads = reopened(second.get(), O_RDONLY);
  ASSERT_EQ(::write(second.get(), "x", 1), 1);
  second.reset();
  BusyPipe busy(std::move(reads));
  go_on.set_value();
  wait_for(second_ended);
  third.reset();
  wait_for(third_ended);
  detail::settle_leases();
}

TEST_F(Leases, SettlingIncludesTheCopiesOfThisProcess) {
  constexpr std::chrono::milliseconds patience{100};  // of a close that somebody may block
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> ended;
    spi::StrangerFd lease = leased(ended);
    std::vector<spi::StrangerFd> closed_before;  // they keep the closing thread busy for longer than a question takes
    for (int j = 0; j < 100; ++j) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
      closed_before.emplace_back(UniqueFd(ends[0]));
      closed_before.emplace_back(UniqueFd(ends[1]));
    }
    const auto begin = std::chrono::steady_clock::now();
    closed_before.clear();
    lease.reset();
    EXPECT_TRUE(detail::settle_leases());
    const bool in_time = std::chrono::steady_clock::now() - begin < patience;
    ASSERT_TRUE(ended || !in_time) << i;
    wait_for(ended);
  }
}

TEST_F(Leases, TakeLittleOfWhatAUserHasForPipes) {
  std::atomic<bool> ended;
  UniqueFd lease = leased(ended);
  EXPECT_EQ(::fcntl(lease.get(), F_GETPIPE_SZ), ::getpagesize());
  EXPECT_NE(::fcntl(lease.get(), F_GETFD) & FD_CLOEXEC, 0);
  lease.reset();
  wait_for(ended);
}

}  // namespace
}  // namespace weir::test
