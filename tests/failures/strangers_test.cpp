// SPDX-License-Identifier: Apache-2.0
// What is asked of a stranger's file before weir knows what it is. His file system answers most questions, when it
// likes to; what is on the lists below the kernel answers by itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/file_closer.hpp"
#include "busy_pipe.hpp"
#include "descriptor_fields.hpp"
#include "inject/system_calls.hpp"
#include "ipc/channel/watcher.hpp"
#include "sink.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

using spi::UniqueFd;

class OfStrangers : public testing::Test {
 protected:
  // The calls of a thread that ends the connections of earlier tests would count.
  OfStrangers() { detail::channel::settle_channels(); }

  /// The system calls of opening a descriptor with these flags that has this file at that place.
  std::set<std::string> asked(std::uint64_t flags, std::size_t place, const std::function<UniqueFd()>& file) {
    std::set<std::string> names;
    for (std::size_t nth = 1;; ++nth) {
      std::vector<UniqueFd> fds;
      if (place != 0) fds.push_back(genuine_.fds()[0].duplicate());
      fds.push_back(file());
      const Bytes bytes = wire::with(wire::with(genuine_.bytes(), wire::flags, flags), wire::fd_count, fds.size());
      calls_.arm(nth, 0);
      EXPECT_THROW((void)ipc::open({bytes, std::move(fds)}, stream_), Error);
      detail::settle_closes();
      const auto hit = calls_.disarm();
      if (!hit) return names;
      names.insert(hit->call);
      (void)take_reports();  // of a thread that could not start
    }
  }
  /// What closing it takes, and these.
  static testing::AssertionResult only(const std::set<std::string>& names, std::set<std::string> allowed) {
    allowed.insert({"close", "thread"});
    for (const std::string& name : names) {
      if (!allowed.contains(name)) return testing::AssertionFailure() << name << " was asked";
    }
    return testing::AssertionSuccess();
  }

 private:
  FailingSystemCalls calls_{host_device()};
  Stream stream_{host_device()};
  Buffer buffer_ = host::make_shared_resource()->allocate(64, stream_);
  ipc::Descriptor genuine_ = buffer_.ipc_descriptor(stream_);
};

UniqueFd write_end() { return pipe_pair().second; }
UniqueFd memory_file() { return UniqueFd(::memfd_create("stranger", MFD_CLOEXEC)); }
UniqueFd file_of_a_file_system() { return UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)); }

TEST_F(OfStrangers, MemoryIsAskedForItsSealsFirst) {
  EXPECT_TRUE(only(asked(0, 0, write_end), {"fcntl"}));
  EXPECT_TRUE(only(asked(0, 0, file_of_a_file_system), {"fcntl"}));
  EXPECT_TRUE(only(asked(0, 0, memory_file), {"fcntl"})) << "it is not sealed, so its size says nothing";
}

TEST_F(OfStrangers, AReadyPointIsAskedWhetherItIsASocket) {
  EXPECT_TRUE(only(asked(2, 1, write_end), {"getsockopt"}));
  EXPECT_TRUE(only(asked(2, 1, file_of_a_file_system), {"getsockopt"}));
}

TEST_F(OfStrangers, ALeaseIsAskedWhetherItIsAPipe) {
  EXPECT_TRUE(only(asked(4, 1, memory_file), {"splice"}));
  EXPECT_TRUE(only(asked(4, 1, file_of_a_file_system), {"splice"}));
}

}  // namespace
}  // namespace weir::test
