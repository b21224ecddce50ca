// SPDX-License-Identifier: Apache-2.0
// Files that block whoever closes them or looks into them, in every place where a stranger can put one: whoever refuses
// or uses them goes on. What blocks hangs here, and the watchdog ends it.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <list>
#include <optional>
#include <vector>

#include "busy_pipe.hpp"
#include "descriptor_fields.hpp"
#include "fds.hpp"
#include "fixture.hpp"
#include "spawn.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using spi::UniqueFd;

constexpr std::uint64_t has_ready = 2, has_lease = 4;

class BlockingFiles : public OnMemory {
 protected:
  void SetUp() override {
    OnMemory::SetUp();
    buffer = filled(pattern(3000, 1));
    {
      const ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
      bytes.assign(descriptor.bytes().begin(), descriptor.bytes().end());
      for (const UniqueFd& fd : descriptor.fds()) files.push_back(fd.duplicate());
    }
    (void)ipc::open(forged(0, 0, files[0].duplicate()), stream);  // drivers open files of their own on first use
    stream.synchronize();
    resource->trim(0);
    before = open_fds();
  }
  void TearDown() override {
    blocking.clear();
    stream.synchronize();
    resource->trim(0);
    EXPECT_FDS(before);
    EXPECT_BYTES(read(buffer, stream), pattern(3000, 1));
    OnMemory::TearDown();
  }

  /// The true descriptor with these flags and the true files, but for the one at `place`.
  [[nodiscard]] ipc::Descriptor forged(std::uint64_t flags, std::size_t place, UniqueFd file) const {
    std::vector<UniqueFd> fds;
    fds.push_back(place == 0 ? std::move(file) : files[0].duplicate());
    if (place != 0) fds.push_back(std::move(file));
    const Bytes with_flags = wire::with(bytes, wire::flags, flags);
    return {wire::with(with_flags, wire::fd_count, fds.size()), std::move(fds)};
  }
  [[nodiscard]] UniqueFd blocks() { return blocking.emplace_back().take(); }
  [[nodiscard]] Buffer opened(ipc::Descriptor descriptor) const { return ipc::open(std::move(descriptor), stream); }

  Buffer buffer;
  Bytes bytes;
  std::vector<UniqueFd> files;
  std::list<BlockingFile> blocking;
  std::size_t before = 0;
};
WEIR_FOR_EACH_EXPORTABLE(BlockingFiles);

TEST_P(BlockingFiles, AsMemory) {
  EXPECT_THROW((void)opened(forged(0, 0, blocks())), Error);
  EXPECT_BYTES(read(opened(forged(0, 0, files[0].duplicate())), stream), pattern(3000, 1));
}

TEST_P(BlockingFiles, AsAReadyPoint) {
  EXPECT_ERROR(opened(forged(has_ready, 1, blocks())), Errc::corrupt_descriptor, "ready point");
}

// It is what a lease must be: only its exporter keeps it busy.
TEST_P(BlockingFiles, AsALease) {
  Buffer import = opened(forged(has_lease, 1, blocks()));
  EXPECT_BYTES(read(import, stream), pattern(3000, 1));
  import.close();
  stream.synchronize();
  resource->trim(0);
  EXPECT_FALSE(resource->try_allocate(std::size_t{1} << 50, stream)) << "waits for releases, and for nothing else";
}

// The copy of the exporter's descriptor is the last of the file that it made; a sharer has what he opened again.
TEST_P(BlockingFiles, AsALeaseThatWasNotSent) {
  if (!resource->reuses_memory()) return;  // without a lease
  std::optional<ipc::Descriptor> descriptor = buffer.ipc_descriptor(stream);
  const int lease = descriptor->fds().back().get();
  UniqueFd reads = reopened(lease, O_RDONLY);
  ASSERT_EQ(::write(lease, "x", 1), 1);
  BusyPipe busy(std::move(reads));
  descriptor.reset();
  busy.let_go();
}

TEST_P(BlockingFiles, AsALeaseWithWorkPending) {
  const Stream other(device());
  Gate gate;
  gate.hold(other);
  Buffer import = opened(forged(has_lease, 1, blocks()));
  import.use_on(other);
  import.close();
  gate.open();
  other.synchronize();
  resource->trim(0);
}

TEST_P(BlockingFiles, BesideABrokenDescriptor) {
  auto broken = forged(has_lease, 1, blocks());
  EXPECT_ERROR(opened({part(broken.bytes(), 0, 100),
                       [&] {
                         std::vector<UniqueFd> fds;
                         fds.push_back(blocks());
                         return fds;
                       }()}),
               Errc::corrupt_descriptor, "100");
  EXPECT_ERROR(opened({wire::with(broken.bytes(), wire::flags, 0xf0), {}}), Errc::corrupt_descriptor, "flags");
}

TEST_P(BlockingFiles, BesideADescriptorThatNobodyOpens) {
  std::optional<ipc::Descriptor> first = forged(has_lease, 1, blocks());
  *first = forged(has_ready, 1, blocks());
  first.reset();
}

/// One message of so many bytes.
void send_raw(int socket, std::size_t bytes, const std::vector<int>& numbers) {
  Bytes content(bytes);
  iovec io{content.data(), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * numbers.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * numbers.size());
  std::memcpy(CMSG_DATA(header), numbers.data(), sizeof(int) * numbers.size());
  ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

class BlockingFilesOnTheWay : public testing::Test {
 protected:
  void TearDown() override {
    blocking_.let_go();
    ends_.first.reset();
    ends_.second.reset();
    EXPECT_FDS(before_);
  }
  /// So many files, the last of which blocks and is here no more.
  void send(std::size_t bytes, std::size_t files) {
    const UniqueFd file = blocking_.take(), harmless(::open("/dev/null", O_RDWR | O_CLOEXEC));
    std::vector<int> numbers(files, harmless.get());
    numbers.back() = file.get();
    send_raw(ends_.first.get(), bytes, numbers);
  }
  [[nodiscard]] int socket() const { return ends_.second.get(); }
  void hang_up() { ends_.first.reset(); }

 private:
  std::size_t before_ = open_fds();
  std::pair<UniqueFd, UniqueFd> ends_ = socket_pair(SOCK_STREAM);
  BlockingFile blocking_;
};

TEST_F(BlockingFilesOnTheWay, TooMany) {
  send(ipc::Descriptor::size, 5);
  EXPECT_ERROR(ipc::receive(socket(), 1s), Errc::corrupt_descriptor, "more than 4");
}

// What the kernel cannot hand over, it closes itself.
TEST_F(BlockingFilesOnTheWay, AsManyAsTheKernelSends) {
  send(ipc::Descriptor::size, 253);
  EXPECT_ERROR(ipc::receive(socket(), 1s), Errc::corrupt_descriptor, "more than 4");
}

TEST_F(BlockingFilesOnTheWay, BesideBytesThatStop) {
  send(100, 2);
  hang_up();
  EXPECT_ERROR(ipc::receive(socket(), 1s), Errc::corrupt_descriptor, "100");
}

TEST_F(BlockingFilesOnTheWay, BesideBytesThatNeverCome) {
  send(100, 2);
  EXPECT_ERROR(ipc::receive(socket(), 10ms), Errc::timed_out, "");
}

TEST_F(BlockingFilesOnTheWay, BesideNonsense) {
  send(ipc::Descriptor::size, 1);
  const Stream stream(host_device());
  EXPECT_ERROR(ipc::open(ipc::receive(socket(), 1s), stream), Errc::corrupt_descriptor, "magic");
}

}  // namespace
}  // namespace weir::test
