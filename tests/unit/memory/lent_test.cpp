// SPDX-License-Identifier: Apache-2.0
// Who has memory that is missing here, in words.
#include "memory/lent.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "ipc/channel/hostile_peer.hpp"
#include "weir/channel.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/stream.hpp"

namespace weir::test {
namespace {

std::string processes_with(const MemoryResource& resource) {
  Shortage shortage;
  detail::tell_of_lent(resource, shortage);
  return shortage.leased_to;
}

/// A channel to a process that greets and ends, and whose end of the connection stays here.
struct Connection {
  Connection() : Connection(ipc::Channel::make_sockets()) {
    if (process == 0) {
      peer.greet();
      ::_exit(0);
    }
    EXPECT_EQ(::waitpid(process, nullptr, 0), process);
  }
  ipc::Channel channel;
  Peer peer;
  const pid_t process;

 private:
  explicit Connection(std::pair<spi::UniqueFd, spi::UniqueFd> ends)
      : channel(std::move(ends.first)), peer(std::move(ends.second)), process(::fork()) {}
};

// The one with the most bytes comes first.
TEST(LentMemory, IsMissingWithFourProcessesAndSoManyMore) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer knows of 64 locks at a time, and a fork holds more";
#endif
  const ResourcePtr resource = host::make_shared_resource();
  const Stream stream{host_device()};
  std::deque<Connection> connections;
  std::string names;
  for (std::size_t i = 1; i <= 6; ++i) {
    Connection& to = connections.emplace_back();
    to.channel.send(resource->allocate((10 - i) * 4096, stream), stream, {}, time_limit);
    const std::string name = std::to_string(to.process);
    const std::string others = i > 5 ? " and 2 more" : " and 1 more";
    if (i > 4) {
      EXPECT_EQ(processes_with(*resource), "processes " + names + others);
    } else {
      EXPECT_EQ(processes_with(*resource), i == 1 ? "process " + name : "processes " + names + " and " + name);
      names += (i == 1 ? "" : ", ") + name;
    }
  }
}

}  // namespace
}  // namespace weir::test
