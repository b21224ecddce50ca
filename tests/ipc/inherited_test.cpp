// SPDX-License-Identifier: Apache-2.0
// Programs that this process starts get no file of the library. A copy of a socket or of a lease would hide the end of
// this process from its peers, and a copy of a lock or of memory would keep that.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "folder.hpp"
#include "gate.hpp"
#include "holding.hpp"
#include "time_limits.hpp"
#include "weir/adaptors/logging.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/held_set.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

const std::chrono::seconds limit = answer_limit();

/// Return the files of which a program that this process starts now gets a copy: the number of each, and what it is.
std::set<std::string> inheritable() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string number = entry.path().filename();
    std::error_code gone;  // another thread may close it
    const auto file = std::filesystem::read_symlink(entry.path(), gone);
    const int flags = ::fcntl(std::stoi(number), F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) all.insert(number + " -> " + file.string());
  }
  return all;
}

class ProgramsInherit : public testing::Test {
 protected:
  void expect_nothing_more() const {
    for (const auto& file : inheritable()) EXPECT_TRUE(before_.contains(file)) << file;
  }
  [[nodiscard]] Buffer filled(const ResourcePtr& resource, const Stream& stream) const {
    Buffer buffer = resource->allocate(bytes, stream);
    buffer.fill(std::byte{1}, stream);
    return buffer;
  }
  static Tensor as_bytes(const Buffer& buffer) { return buffer.view(u8, {bytes}); }

  static constexpr std::size_t bytes = 4096;

 private:
  const std::set<std::string> before_ = inheritable();

 protected:
  const Folder folder_;
  const Stream stream_{host_device()};
  const ResourcePtr resource_ = host::make_shared_resource();
};

TEST_F(ProgramsInherit, NoFileOfAChannel) {
  auto [mine, theirs] = ipc::Channel::make_sockets();
  ipc::Channel here(std::move(mine)), there(std::move(theirs));
  const Stream held{host_device()};
  Gate gate;
  gate.hold(held);
  here.send(filled(resource_, held), held, {}, limit);  // with a timeline page
  const auto parcel = there.receive(stream_, limit);
  expect_nothing_more();
  gate.open();
  stream_.synchronize();
}

TEST_F(ProgramsInherit, NoFileOfAServerAndItsClients) {
  ipc::Server server(folder_ / "server");
  ipc::Client client(folder_ / "server");
  const auto subscription = client.subscribe();
  server.publish("tensor", filled(resource_, stream_), stream_);
  const Tensor got = client.get("tensor", stream_);
  expect_nothing_more();
}

// The holder has the lock beside its path, too.
TEST_F(ProgramsInherit, NoFileOfAHolderAndItsClients) {
  const HolderThread holder;
  const ResourcePtr leases = make_pool(resource_, {.exportable = true});
  ipc::SetWriter writer(holder.path(), "set");
  writer.add("tensor", as_bytes(filled(leases, stream_)), stream_);
  writer.commit(limit);
  ipc::SetReader reader(holder.path(), "set");
  const auto set = reader.open(stream_, limit);
  expect_nothing_more();
}

TEST_F(ProgramsInherit, NoFileOfADescriptor) {
  const Stream held{host_device()};
  Gate gate;
  gate.hold(held);
  const Buffer buffer = filled(resource_, held);
  const auto writes = buffer.ipc_descriptor(held), reads = buffer.ipc_descriptor(held, ipc::Access::read_only);
  EXPECT_EQ(writes.fds().size(), 2U) << "one says when the work is complete";
  EXPECT_EQ(reads.fds().size(), 2U);
  expect_nothing_more();
}

TEST_F(ProgramsInherit, NoFileOfATrace) {
  const auto logged = make_logging(resource_, folder_ / "trace");
  expect_nothing_more();
}

}  // namespace
}  // namespace weir::test
