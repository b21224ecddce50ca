// SPDX-License-Identifier: Apache-2.0
// The socket that a server listens on: whose path it is, and what comes of clients that cannot be accepted.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>

#include "folder.hpp"
#include "ipc/channel/few_files.hpp"
#include "sink.hpp"
#include "weir/client.hpp"
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
