// SPDX-License-Identifier: Apache-2.0
// Files that are closed apart: all of them are, those that block somebody keep nobody else open, and nobody waits.
#include "base/file_closer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <future>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "busy_pipe.hpp"
#include "fds.hpp"
#include "lingering_socket.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::test {
namespace {

constexpr std::size_t most_threads = 8;
constexpr std::chrono::milliseconds patience{100};

/// A file that says when it is closed.
class Told {
 public:
  [[nodiscard]] spi::UniqueFd take() { return std::move(ends_.second); }
  [[nodiscard]] bool closed() const { return hung_up(0); }
  void wait() const { (void)hung_up(-1); }  // the watchdog ends it if it never is

 private:
  [[nodiscard]] bool hung_up(int timeout) const {
    pollfd entry{ends_.first.get(), 0, 0};
    return ::poll(&entry, 1, timeout) == 1;
  }
  std::pair<spi::UniqueFd, spi::UniqueFd> ends_ = pipe_pair();
};

/// A close that takes longer than `patience` is not waited for; none of these can when settling is over before.
void close_and_settle(std::size_t count) {
  std::list<Told> many(count);
  const auto begin = std::chrono::steady_clock::now();
  for (Told& told : many) detail::close_apart(told.take());
  detail::settle_closes();
  const bool in_time = std::chrono::steady_clock::now() - begin < patience;
  for (const Told& told : many) {
    EXPECT_TRUE(told.closed() || !in_time);
    told.wait();
  }
}

class StrangerFiles : public testing::Test {
 protected:
  void TearDown() override { EXPECT_FDS(before_); }

 private:
  std::size_t before_ = open_fds();
};

TEST_F(StrangerFiles, AreClosed) {
  Told one, two, three;
  detail::close_apart(one.take());
  one.wait();
  { const spi::StrangerFd owned = two.take(); }
  two.wait();
  spi::StrangerFd assigned = three.take();
  assigned = spi::StrangerFd();
  three.wait();
  detail::close_apart(spi::UniqueFd());
}

TEST_F(StrangerFiles, AreClosedFromThereOn) {
  Told first, second, third;
  std::vector<spi::UniqueFd> files;
  for (Told* told : {&first, &second, &third}) files.push_back(told->take());
  detail::close_apart(files, 1);
  second.wait();
  third.wait();
  EXPECT_EQ(files.size(), 1U);
  EXPECT_FALSE(first.closed());
}

TEST_F(StrangerFiles, WhatIsTrustedIsClosedAtOnce) {
  Told told;
  spi::StrangerFd file = told.take();
  { const spi::UniqueFd mine = file.trust(); }
  EXPECT_TRUE(told.closed());
  EXPECT_FALSE(file);
}

TEST_F(StrangerFiles, SettlingWaitsForAll) { close_and_settle(300); }

// Settling comes back without what got stuck, but not without what is just being closed.
TEST_F(StrangerFiles, SettlingWaitsForWhatIsBeingClosed) {
  for (int round = 0; round < 3; ++round) {
    BlockingFile slow;
    spi::UniqueFd file = slow.take();
    const int number = file.get();
    const auto begin = std::chrono::steady_clock::now();  // the patience begins once the closing has
    detail::close_apart(std::move(file));
    while (fcntl(number, F_GETFD) != -1) std::this_thread::yield();  // until its closing has begun
    std::promise<void> settled;
    Thread settling([&] {
      detail::settle_closes();
      settled.set_value();
    });
    const auto waited = settled.get_future().wait_for(patience / 5);
    const bool in_time = std::chrono::steady_clock::now() - begin < patience;
    EXPECT_TRUE(waited == std::future_status::timeout || !in_time);
    slow.let_go();
    settling.join();
  }
}

TEST_F(StrangerFiles, OneThatBlocksKeepsNoOtherOpen) {
  BlockingFile blocking;
  detail::close_apart(blocking.take());
  std::list<Told> many(20);
  for (Told& told : many) detail::close_apart(told.take());
  for (const Told& told : many) told.wait();
  while (detail::files_to_close() > 1) detail::settle_closes();
  EXPECT_EQ(detail::files_to_close(), 1U);
  Told later;
  detail::close_apart(later.take());
  later.wait();
}

// Each of them takes long, but not so long that it is stuck.
TEST_F(StrangerFiles, SlowOnesHoldUpNobodyAgainAndAgain) {
  constexpr std::size_t ahead = 64, count = ahead + 40, few = 20;
  std::list<BlockingFile> slow(count);
  std::atomic<std::size_t> closed = 0;
  std::atomic<bool> handed_over = false;
  const Thread closing([&] {
    for (BlockingFile& file : slow) {
      if (!handed_over) std::this_thread::sleep_for(patience * 3 / 5);
      file.let_go();
      ++closed;
    }
  });
  for (BlockingFile& file : slow) detail::close_apart(file.take());
  EXPECT_LT(closed.load(), few);
  handed_over = true;
}

// One after the other gets stuck, without anybody who hands over more.
TEST_F(StrangerFiles, SeveralThatBlockKeepNoOtherOpen) {
  std::list<BlockingFile> blocking(most_threads - 1);
  for (BlockingFile& file : blocking) detail::close_apart(file.take());
  Told told;
  detail::close_apart(told.take());
  told.wait();
}

TEST_F(StrangerFiles, ThatAreNoPipesKeepNoPipeOpen) {
  std::list<LingeringSocket> blocking(most_threads);
  for (LingeringSocket& socket : blocking) detail::close_apart(socket.take());
  std::list<Told> many(100);
  for (Told& told : many) detail::close_apart(told.take());
  for (const Told& told : many) told.wait();
  while (detail::files_to_close() > most_threads) detail::settle_closes();
  EXPECT_EQ(detail::files_to_close(), most_threads);
  for (LingeringSocket& socket : blocking) socket.let_go();
  settle_files();
}

// However many files there are whose close takes long, a caller waits for some of them only.
TEST_F(StrangerFiles, ThatAreSlowHoldACallerUpForABoundedTime) {
  constexpr std::size_t files = 150;
  constexpr std::chrono::milliseconds slow{60};
  static_assert(slow < patience, "or each of them would be stuck, and soon all threads");
  std::list<LingeringSocket> blocking(files);
  std::atomic<bool> hurry{false};
  Thread owner([&] {
    for (LingeringSocket& socket : blocking) {
      if (!hurry) std::this_thread::sleep_for(slow);
      socket.let_go();
    }
  });
  for (LingeringSocket& socket : blocking) detail::close_apart(socket.take());
  detail::settle_closes();
  EXPECT_GT(detail::files_to_close(), files / 2);
  hurry = true;
  owner.join();
  settle_files();
  (void)take_reports();  // of threads that were stuck, if this process stood still for long
}

// Each time anew.
TEST_F(StrangerFiles, WhenAllThreadsAreStuckFilesStayOpenWhichIsSaidOnce) {
  for (int round = 0; round < 2; ++round) {
    std::list<BlockingFile> blocking(most_threads);
    for (BlockingFile& file : blocking) detail::close_apart(file.take());
    detail::settle_closes();
    EXPECT_EQ(detail::files_to_close(), most_threads);
    EXPECT_TRUE(take_reports().empty());
    std::list<Told> many(100);
    for (Told& told : many) detail::close_apart(told.take());
    detail::settle_closes();
    for (const Told& told : many) EXPECT_FALSE(told.closed());
    EXPECT_EQ(detail::files_to_close(), most_threads + many.size());
    const auto reports = take_reports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].where, "files of other processes");
    EXPECT_NE(reports[0].message.find("stay open"), std::string::npos);
    blocking.front().let_go();
    for (const Told& told : many) told.wait();
    blocking.clear();
    settle_files();
  }
}

// A process that opens and closes must not run out of descriptors that it has closed.
TEST_F(StrangerFiles, AreNotHandedOverFasterThanTheyAreClosed) {
  constexpr std::size_t most_ahead = 64;
  const spi::UniqueFd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int i = 0; i < 5000; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    detail::close_apart(file.duplicate());
    const std::size_t left = detail::files_to_close();
    const bool in_time = std::chrono::steady_clock::now() - begin < patience;
    ASSERT_TRUE(left <= most_ahead + most_threads || !in_time) << left;
  }
}

TEST_F(StrangerFiles, OfManyThreads) {
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] { close_and_settle(100); });
  }
  for (Thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::test
