// SPDX-License-Identifier: Apache-2.0
// A timeline page from both sides, and what a stranger may send in the place of one.
#include "ipc/timeline_page.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "expect.hpp"
#include "fds.hpp"
#include "spawn.hpp"
#include "waiting.hpp"

namespace weir::test {
namespace {

using detail::OwnPage;
using detail::page_bytes;
using detail::page_words;
using detail::PagePoint;
using detail::PeerPage;
using State = PeerPage::State;
using spi::UniqueFd;

constexpr int right_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

UniqueFd memory_file(std::size_t bytes, int seals) {
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

TEST(TimelinePage, ShowsWhatItsMakerReaches) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  for (const std::uint32_t word : {0U, 7U, page_words - 1}) {
    EXPECT_EQ(peer.look({word, 1}), State::pending);
    own.reach({word, 2});
    EXPECT_EQ(peer.look({word, 1}), State::reached);
    EXPECT_EQ(peer.look({word, 2}), State::reached);
    EXPECT_EQ(peer.look({word, 3}), State::pending);
    EXPECT_TRUE(own.reached({word, 2}));
    EXPECT_FALSE(own.reached({word, 3}));
  }
  EXPECT_EQ(peer.look({1, 1}), State::pending) << "words are apart";
}

TEST(TimelinePage, ValuesOnlyGrow) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  own.reach({3, 5});
  own.reach({3, 4});
  EXPECT_EQ(peer.look({3, 5}), State::reached);
}

TEST(TimelinePage, WhatIsGivenUpIsNeverReached) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  own.reach({3, 5});
  own.give_up(3);
  own.reach({3, 6});
  EXPECT_EQ(peer.look({3, 5}), State::reached);
  EXPECT_EQ(peer.look({3, 6}), State::given_up);
  EXPECT_FALSE(own.reached({3, 6}));
}

TEST(TimelinePage, WhatIsGivenUpIsNeverReachedByADevice) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  own.words()[3] = 5;
  EXPECT_TRUE(own.goes_on({3, 5}));
  own.give_up(3);
  own.words()[3] = 7;
  EXPECT_EQ(peer.look({3, 5}), State::reached);
  EXPECT_EQ(peer.look({3, 6}), State::given_up);
  EXPECT_FALSE(own.reached({3, 7}));
  EXPECT_FALSE(own.goes_on({3, 5})) << "a stream that got this word would have no points";
  own.give_up(3);
  EXPECT_EQ(peer.look({3, 6}), State::given_up);
}

// Without the wake, a sleeper would be found asleep for an hour.
TEST(TimelinePage, WakesThoseWhoSleep) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  const auto until = [&](PagePoint point, std::chrono::nanoseconds most) {
    return [&peer, point, most] {
      while (peer.look(point) == State::pending) peer.sleep(point, most);
    };
  };
  constexpr std::chrono::hours hour{1};
  constexpr std::chrono::milliseconds some{10};  // what is given up may be missed
  const Waiting first(until({1, 2}, hour)), second(until({1, 1}, hour)), other(until({2, 1}, some));
  const Waiting device(until({3, 1}, hour));
  own.reach({1, 1});
  own.reach({1, 2});
  own.give_up(2);
  std::atomic_ref(own.words()[3]).store(1, std::memory_order_release);
  own.settle({3, 1});
}

TEST(TimelinePage, ASleepEnds) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  peer.sleep({1, 1}, std::chrono::milliseconds{1});
  EXPECT_EQ(peer.look({1, 1}), State::pending);
}

TEST(TimelinePage, BelongsToItsMakerAlone) {
  OwnPage own;
  const UniqueFd file = own.file().duplicate();
  EXPECT_EQ(::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), MAP_FAILED);
  const UniqueFd again(::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(again);
  EXPECT_EQ(::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
  const std::uint64_t value = 1;
  EXPECT_EQ(::pwrite(again.get(), &value, sizeof value, 0), -1);
  EXPECT_EQ(::ftruncate(again.get(), 0), -1);
  EXPECT_EQ(::ftruncate(again.get(), 2 * page_bytes), -1);
  EXPECT_EQ(::fallocate(again.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, page_bytes), -1);
  EXPECT_EQ(::fcntl(again.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(TimelinePage, IsNotWrittenByAChild) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    own.reach({1, 1});
    own.give_up(2);
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(peer.look({1, 1}), State::pending);
  EXPECT_EQ(peer.look({2, 1}), State::pending);
  own.reach({1, 1});
  EXPECT_EQ(peer.look({1, 1}), State::reached);
}

TEST(TimelinePage, IsAskedForItsSealsAndItsSize) {
  EXPECT_EQ(PeerPage(memory_file(page_bytes, right_seals)).look({0, 1}), State::pending);
  EXPECT_EQ(PeerPage(memory_file(page_bytes, right_seals | F_SEAL_WRITE | F_SEAL_SEAL)).look({0, 1}), State::pending);
  for (const int seal : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE})
    EXPECT_ERROR(PeerPage(memory_file(page_bytes, right_seals & ~seal)), Errc::corrupt_descriptor, "not sealed");
  for (const std::size_t bytes :
       {std::size_t{0}, page_bytes - 1, page_bytes + 1, 2 * page_bytes, std::size_t{1} << 62U})
    EXPECT_ERROR(PeerPage(memory_file(bytes, right_seals)), Errc::corrupt_descriptor,
                 "has " + std::to_string(bytes) + " bytes, not " + std::to_string(page_bytes));
}

TEST(TimelinePage, IsAMemfd) {
  EXPECT_ERROR(PeerPage(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC))), Errc::corrupt_descriptor, "not a memfd");
  EXPECT_ERROR(PeerPage(UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))), Errc::corrupt_descriptor,
               "not a memfd");
  EXPECT_ERROR(PeerPage(socket_pair(SOCK_STREAM).first), Errc::corrupt_descriptor, "not a memfd");
  EXPECT_ERROR(PeerPage(UniqueFd{}), Errc::corrupt_descriptor, "not a memfd");
}

TEST(TimelinePage, IsReadWithoutAFile) {
  OwnPage own;
  const auto files = open_fds();
  const PeerPage peer(own.file().duplicate());
  EXPECT_FDS(files);
  own.reach({1, 1});
  EXPECT_EQ(peer.look({1, 1}), State::reached);
}

// What a device does that writes its words: it wakes nobody, and says nothing when it stops.
TEST(TimelinePage, SettlesWhatADeviceWrote) {
  OwnPage own;
  const PeerPage peer(own.file().duplicate());
  own.words()[4] = 3;
  own.settle({4, 3});
  EXPECT_EQ(peer.look({4, 3}), State::reached);
  EXPECT_EQ(peer.look({4, 4}), State::pending);
  own.settle({4, 5});
  EXPECT_EQ(peer.look({4, 3}), State::reached);
  EXPECT_EQ(peer.look({4, 4}), State::given_up);
}

}  // namespace
}  // namespace weir::test
