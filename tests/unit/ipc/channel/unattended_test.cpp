// SPDX-License-Identifier: Apache-2.0
// What the library's thread does for channels while no call of the user's reads them: nothing that a peer gives back is
// left, whatever threads read before, and the thread sleeps while there is nothing to read.
#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/linger.hpp"
#include "busy.hpp"
#include "fixture.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/channel/watcher.hpp"
#include "threads.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Channel;

constexpr auto limit = 30s;

struct Pair {
  explicit Pair(std::pair<spi::UniqueFd, spi::UniqueFd> sockets = Channel::make_sockets())
      : here(std::move(sockets.first)), there(std::move(sockets.second)) {}
  Channel here, there;
};

/// Return the numbers of the threads that attend to channels.
std::vector<std::string> attendants() {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), &::closedir);
  while (const auto* const task = ::readdir(tasks.get())) {
    std::ifstream file("/proc/self/task/" + std::string(task->d_name) + "/comm");
    std::string name;
    if (std::getline(file, name) && name == "weir channels") found.emplace_back(task->d_name);
  }
  return found;
}

/// Return how often the thread has gone to sleep.
std::uint64_t sleeps(const std::string& thread) {
  std::ifstream file("/proc/self/task/" + thread + "/status");
  constexpr char field[] = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(field, 0) == 0) return std::stoull(line.substr(sizeof field - 1));
  }
  return 0;
}

bool is_asleep(const std::string& thread) {
  std::ifstream file("/proc/self/task/" + thread + "/stat");
  std::string line;
  std::getline(file, line);
  return line.find(") S ") != std::string::npos;
}

bool has_hung_up(const spi::UniqueFd& socket) {
  pollfd entry{socket.get(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0;
}

class Unattended : public testing::Test {
 protected:
  // Ends of connections take a moment, and other tests count files.
  void TearDown() override {
    EXPECT_TRUE(attendant_ends());
    detail::linger = linger_;
  }

  template <class Condition>
  static bool comes(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static bool all_comes_back(const Channel& channel) {
    return comes([&] { return channel.stats().lent == 0; });
  }
  static bool attendant_ends() {
    return comes([] { return attendants().empty(); });
  }

  /// A buffer goes there and back.
  void lend_once(Pair& pair) const {
    pair.here.send(buffer, stream);
    pair.there.receive(stream, limit).buffer.close();
  }

  const Stream stream{host_device()};
  const Buffer buffer =
      make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(4096, stream);

 private:
  const std::chrono::milliseconds linger_ = detail::linger.load();
};

TEST_F(Unattended, EachBufferComesBack) {
  Pair pair;
  for (int i = 0; i < 1000; ++i) {
    lend_once(pair);
    ASSERT_TRUE(all_comes_back(pair.here)) << "round " << i;
  }
}

// The thread is still at work for one buffer when the next one is sent.
TEST_F(Unattended, EachBufferOfABurstComesBack) {
  Pair pair;
  for (int i = 0; i < 300; ++i) {
    for (int j = 0; j <= i % 7; ++j) lend_once(pair);
    ASSERT_TRUE(all_comes_back(pair.here)) << "round " << i;
  }
}

TEST_F(Unattended, EachBufferComesBackAfterTheThreadHasEnded) {
  detail::linger = 0ms;
  Pair pair;
  for (int i = 0; i < 50; ++i) {
    lend_once(pair);
    ASSERT_TRUE(all_comes_back(pair.here)) << "round " << i;
    if (i % 5 != 0) continue;
    ASSERT_TRUE(attendant_ends()) << "an open channel over which nothing is lent keeps it";
  }
}

TEST_F(Unattended, BuffersComeBackOverManyChannels) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 20; ++i) pairs.push_back(std::make_unique<Pair>());
  for (int i = 0; i < 50; ++i) {
    for (const auto& pair : pairs) lend_once(*pair);
    for (const auto& pair : pairs) ASSERT_TRUE(all_comes_back(pair->here)) << "round " << i;
  }
}

TEST_F(Unattended, BuffersComeBackWhileTheThreadIsBusyWithOthers) {
  std::atomic<bool> over{false};
  Pair busy, pair;
  const Thread other([&] {
    while (!over) lend_once(busy);
  });
  const OnLeaving leave([&] { over = true; });
  for (int i = 0; i < 1000; ++i) {
    lend_once(pair);
    ASSERT_TRUE(all_comes_back(pair.here)) << "round " << i;
  }
}

// A new connection has the number of one that ended, in the set that the thread waits for. A child that was made without
// the library's knowledge may keep the old one open.
TEST_F(Unattended, BuffersComeBackOverSocketsWhoseNumbersWereUsed) {
  std::vector<spi::UniqueFd> copies;
  std::optional<Pair> keeps_the_thread(std::in_place);
  keeps_the_thread->here.send(buffer, stream);
  for (int i = 0; i < 40; ++i) {
    auto sockets = Channel::make_sockets();
    copies.push_back(sockets.first.duplicate());
    Pair pair(std::move(sockets));
    for (int j = 0; j < 2; ++j) {
      lend_once(pair);
      ASSERT_TRUE(all_comes_back(pair.here)) << "round " << i;
    }
  }
}

TEST_F(Unattended, TheEndOfAPeerIsNoticedAfterBuffersCameBack) {
  for (int i = 0; i < 50; ++i) {
    std::optional<Pair> pair(std::in_place);
    Channel here = std::move(pair->here);
    here.send(buffer, stream);
    pair->there.receive(stream, limit).buffer.close();
    ASSERT_TRUE(all_comes_back(here));
    here.send(buffer, stream);
    pair.reset();
    ASSERT_TRUE(all_comes_back(here)) << "round " << i;
  }
}

// One packet is enough for a call. The one behind it gives a buffer back.
TEST_F(Unattended, WhatAReceivingThreadLeavesIsRead) {
  Pair pair;
  for (int i = 0; i < 300; ++i) {
    const Thread receiving([&] { (void)pair.here.receive(stream, limit); });
    pair.here.send(buffer, stream);
    Buffer loan = pair.there.receive(stream, limit).buffer;
    pair.there.send(buffer, stream);
    loan.close();
    ASSERT_TRUE(all_comes_back(pair.here)) << "round " << i;
  }
  EXPECT_TRUE(all_comes_back(pair.there));
}

TEST_F(Unattended, OnePacketForEachOfManyReceivers) {
  Pair pair;
  for (int i = 0; i < 200; ++i) {
    std::vector<Thread> receiving;
    for (int j = 0; j < 3; ++j) receiving.emplace_back([&] { (void)pair.there.receive(stream, limit); });
    for (int j = 0; j < 3; ++j) pair.here.send(buffer, stream);
    for (Thread& one : receiving) one.join();
    ASSERT_TRUE(all_comes_back(pair.here)) << "round " << i;
  }
}

// A question of somebody who needs memory, too, finds what came.
TEST_F(Unattended, WhatCameBackBeforeAQuestionIsThereAfterIt) {
  Pair pair;
  for (int i = 0; i < 300; ++i) {
    lend_once(pair);
    (void)detail::channel::settle_channels();
    ASSERT_EQ(pair.here.stats().lent, 0U) << "round " << i;
  }
}

// However many packets it came in.
TEST_F(Unattended, WhatCameBackInManyPacketsIsThereAfterAQuestion) {
  constexpr std::size_t many = 100;
  Pair pair;
  for (int i = 0; i < 20; ++i) {
    std::vector<Buffer> borrowed;
    for (std::size_t j = 0; j < many; ++j) {
      pair.here.send(buffer, stream);
      borrowed.push_back(pair.there.receive(stream, limit).buffer);
    }
    const auto busy = std::make_shared<Busy>();  // keeps the thread from reading what comes meanwhile
    auto sockets = Channel::make_sockets();
    const auto other = detail::channel::make_link(std::move(sockets.first), 1);
    other->observe(busy);
    busy->begun.acquire();
    for (Buffer& one : borrowed) {
      one.close();
      pair.there.send(buffer, stream);  // and in its packet, what has come back
    }
    busy->goes_on.release();
    (void)detail::channel::settle_channels();
    ASSERT_EQ(pair.here.stats().lent, 0U) << "round " << i;
    for (std::size_t j = 0; j < many; ++j) (void)pair.here.receive(stream, limit);
    other->close();
  }
}

TEST_F(Unattended, TheLastBorrowedBufferEndsAClosedConnection) {
  for (int i = 0; i < 10; ++i) {
    auto sockets = Channel::make_sockets();
    const spi::UniqueFd copy = sockets.first.duplicate();
    Pair pair(std::move(sockets));
    pair.here.send(buffer, stream);
    Buffer borrowed = pair.there.receive(stream, limit).buffer;
    pair.there.close();
    (void)detail::channel::settle_channels();  // the thread has seen to that, and does not come back by itself
    ASSERT_FALSE(has_hung_up(copy)) << "a borrowed buffer needs the connection";
    borrowed.close();
    ASSERT_TRUE(comes([&] { return has_hung_up(copy); })) << "round " << i;
  }
}

// The thread that sends has its socket watched. It does not wake the thread that watches, which has nothing to do yet.
TEST_F(Unattended, LendingWakesNobody) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 50; ++i) pairs.push_back(std::make_unique<Pair>());
  pairs[0]->here.send(buffer, stream);  // so that the thread waits without a time limit
  std::vector<std::string> threads;
  ASSERT_TRUE(comes([&] { return (threads = attendants()).size() == 1; }));
  (void)detail::channel::settle_channels();
  ASSERT_TRUE(comes([&] { return is_asleep(threads[0]); }));
  const auto before = sleeps(threads[0]);
  ASSERT_NE(before, 0U);
  for (const auto& pair : pairs) pair->here.send(buffer, stream);
  EXPECT_EQ(sleeps(threads[0]), before);
  pairs[0]->there.receive(stream, limit).buffer.close();
  for (const auto& pair : pairs) pair->there.receive(stream, limit).buffer.close();
  for (const auto& pair : pairs) EXPECT_TRUE(all_comes_back(pair->here));
  EXPECT_GT(sleeps(threads[0]), before);
}

}  // namespace
}  // namespace weir::test
