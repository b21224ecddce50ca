// SPDX-License-Identifier: Apache-2.0
// A hostile process that was lent host memory for reading alone, and what the kernel lets it do.

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fixture.hpp"
#include "spawn.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

using ipc::Access;
using ipc::Channel;

class ReadOnlyAttack : public testing::Test {
 protected:
  /// Return what an attacker says that led it to a write, after a page of 'r' was sent to it; "no" if it is not allowed
  /// to become that user.
  std::string attack(const ResourcePtr& resource, Access access, const std::string& who) {
    const Child child(WEIR_CHILD_DIR "/attacker_child", {who});
    auto [mine, theirs] = Channel::make_sockets();
    std::vector<spi::UniqueFd> files;
    files.push_back(std::move(theirs));
    ipc::send(child.socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
    Channel channel(std::move(mine));
    memory_ = resource->allocate(5000, stream_);
    memory_.fill(std::uint8_t{'r'}, stream_);
    stream_.synchronize();
    channel.send(memory_, stream_, {}, std::chrono::seconds{30}, access);
    const std::string first = child.line();
    return first == "reads" ? child.line() : first;
  }

  Stream stream_{host_device()};
  Buffer memory_;
};

TEST_F(ReadOnlyAttack, MemoryThatIsLentToWriteCanBeWritten) {
  EXPECT_EQ(attack(host::make_shared_resource(), Access::read_write, "self").rfind("led: map mprotect pwrite", 0), 0U);
  EXPECT_EQ(static_cast<char>(*memory_.host_data()), 'x');
}

// Another user is neither let through by the file nor by its name in /proc.
TEST_F(ReadOnlyAttack, AnotherUserFindsNoWay) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(attack(host::make_shared_resource(), Access::read_only, "nobody"), "led:");
  EXPECT_BYTES(read(memory_, stream_), repeat(5000, 'r'));
}

// A process of the same user owns the file, and so it can change the file's mode and open it anew; root need not even
// change the mode. That is all that docs/ipc.md says of such a process. The file itself lets nobody write.
TEST_F(ReadOnlyAttack, TheFileItselfLetsNobodyWrite) {
  const std::string led = attack(host::make_shared_resource(), Access::read_only, "self");
  ASSERT_EQ(led.rfind("led:", 0), 0U) << led;
  for (const char* way : {"map", "mprotect", "pwrite", "ftruncate"}) EXPECT_EQ(led.find(way), std::string::npos) << led;
}

// The seal is stronger than any right, root's included.
TEST_F(ReadOnlyAttack, NobodyWritesMemoryThatIsSealedForPeers) {
  const auto resource = host::make_shared_resource({.read_only_for_peers = true});
  for (const Access access : {Access::read_only, Access::read_write}) {
    EXPECT_EQ(attack(resource, access, "self"), "led:");
    EXPECT_BYTES(read(memory_, stream_), repeat(5000, 'r'));
  }
}

}  // namespace
}  // namespace weir::test
