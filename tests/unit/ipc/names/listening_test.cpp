// SPDX-License-Identifier: Apache-2.0
// The socket that a server listens on: whose path it is, and what comes of clients that cannot be accepted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>

#include "dead_socket.hpp"
#include "expect.hpp"
#include "folder.hpp"
#include "ipc/channel/few_files.hpp"
#include "sink.hpp"
#include "weir/client.hpp"
#include "weir/holder.hpp"
#include "weir/server.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

std::chrono::nanoseconds processor_time(clockid_t clock) {
  timespec now{};
  EXPECT_EQ(::clock_gettime(clock, &now), 0);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST(NamesListening, APathStaysWithTheServerThatTookItOver) {
  const Folder folder;
  const std::string path = folder / "server";
  std::optional<ipc::Server> first(path);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const ipc::Server second(path);
  first.reset();
  EXPECT_NO_THROW(ipc::Client{path});
}

// Everybody who may read a folder can lock it, for as long as they like.
TEST(NamesListening, ALockOfTheFolderKeepsNobodyFromADeadOnesPlace) {
  const Folder folder;
  const std::string path = folder / "server";
  leave_dead_socket(path);
  const spi::UniqueFd reads(::open(path.substr(0, path.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(reads.get(), LOCK_SH), 0);
  const ipc::Server server(path);
  EXPECT_NO_THROW(ipc::Client{path});
  struct stat lock {};
  ASSERT_EQ(::stat((path + ".lock").c_str(), &lock), 0);
  EXPECT_EQ(lock.st_mode & 0777, 0600U) << "nobody else can open it";
}

// It was stopped, say, while it took the dead one's place.
TEST(NamesListening, AProcessThatKeepsTheLockIsNotWaitedForWithoutEnd) {
  const Folder folder;
  const std::string path = folder / "server";
  leave_dead_socket(path);
  const spi::UniqueFd lock(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  try {
    const ipc::Server server(path);
    ADD_FAILURE() << "another process may be replacing the socket";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_would_block) << error.what();
    EXPECT_NE(std::string(error.what()).find("keeps the lock"), std::string::npos) << error.what();
  }
}

// Its holder has the lock beside the path as long as it lives.
TEST(NamesListening, AHoldersPathIsInUse) {
  const Folder folder;
  const ipc::Holder holder(folder / "holder");
  try {
    const ipc::Server server(folder / "holder");
    ADD_FAILURE() << "a holder listens there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), std::errc::address_in_use) << error.what();
  }
}

// A thread that never rested would get about as much of the processor as this one, however busy the machine is.
TEST(NamesListening, AServerWithoutFilesRestsBeforeItAcceptsAgain) {
  const Folder folder;
  const std::string path = folder / "server";
  const ipc::Server server(path);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  {
    const spi::UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const FewFiles few(0);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const auto mine = processor_time(CLOCK_THREAD_CPUTIME_ID), all = processor_time(CLOCK_PROCESS_CPUTIME_ID);
    auto used = 0ns;
    while (used < 200ms) used = processor_time(CLOCK_THREAD_CPUTIME_ID) - mine;
    EXPECT_LT(processor_time(CLOCK_PROCESS_CPUTIME_ID) - all - used, used / 4);
  }
  EXPECT_NO_THROW(ipc::Client{path});
}

}  // namespace
}  // namespace weir::test
