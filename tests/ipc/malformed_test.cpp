// SPDX-License-Identifier: Apache-2.0
// Descriptors from strangers: every field forged, descriptors of the wrong kind or number, sizes that are not true.
// Each is refused by name, and the process is as before.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "busy_pipe.hpp"
#include "descriptor_fields.hpp"
#include "fds.hpp"
#include "fixture.hpp"
#include "spawn.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

using spi::UniqueFd;

class Malformed : public OnMemory {
 protected:
  static constexpr std::size_t size = 5000;

  void SetUp() override {
    OnMemory::SetUp();
    buffer = filled(pattern(size, 1));
    descriptor.emplace(buffer.ipc_descriptor(stream));
    ASSERT_EQ(descriptor->fds().size(), resource->reuses_memory() ? 2U : 1U) << "the memory, and a lease";
    try_all_paths_once();
    before = open_fds();
  }
  /// The original is untouched and nothing is left open.
  void TearDown() override {
    stream.synchronize();
    resource->trim(0);
    EXPECT_FDS(before);
    EXPECT_BYTES(read(buffer, stream), pattern(size, 1));
    OnMemory::TearDown();
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return descriptor->bytes(); }
  /// Duplicates of the true files, the first of which is the memory's.
  [[nodiscard]] std::vector<UniqueFd> files() const {
    std::vector<UniqueFd> fds;
    for (const UniqueFd& fd : descriptor->fds()) fds.push_back(fd.duplicate());
    return fds;
  }
  /// A descriptor of these bytes with the true files.
  [[nodiscard]] ipc::Descriptor with_file(const Bytes& forged) const { return {forged, files()}; }
  /// The true bytes with these files.
  [[nodiscard]] ipc::Descriptor with_files(std::vector<UniqueFd> fds) const { return {bytes(), std::move(fds)}; }

  /// Whether opening `forged` is refused in one of the ways that are for strangers' mistakes.
  testing::AssertionResult refused(ipc::Descriptor forged) const {
    try {
      const Buffer opened = ipc::open(std::move(forged), stream);
    } catch (const Error& error) {
      for (const Errc expected : {Errc::corrupt_descriptor, Errc::incompatible, Errc::permission_denied}) {
        if (error.code() == expected) return testing::AssertionSuccess();
      }
      return testing::AssertionFailure() << error.code() << ": " << error.what();
    } catch (const std::exception& error) {
      return testing::AssertionFailure() << "not a weir::Error: " << error.what();
    }
    return testing::AssertionFailure() << "opened";
  }

  Buffer buffer;
  std::optional<ipc::Descriptor> descriptor;
  std::size_t before = 0;

 private:
  // Drivers open files of their own on first use.
  void try_all_paths_once() {
    Buffer opened = ipc::open(with_file(Bytes(bytes().begin(), bytes().end())), stream);
    opened.close();
    stream.synchronize();
    resource->trim(0);
    (void)refused(with_file(wire::with(bytes(), wire::segment_size, wire::get(bytes(), wire::segment_size) * 2)));
  }
};
WEIR_FOR_EACH_EXPORTABLE(Malformed);

TEST_P(Malformed, EveryChangedByte) {
  for (std::size_t at = 0; at < bytes().size(); ++at) {
    Bytes forged(bytes().begin(), bytes().end());
    forged[at] ^= std::byte{0x11};
    EXPECT_TRUE(refused(with_file(forged))) << "byte " << at;
  }
}

TEST_P(Malformed, EveryLength) {
  for (const std::size_t length : {0U, 1U, 8U, 100U, 255U}) {
    const Bytes shorter = part(bytes(), 0, length);
    EXPECT_ERROR(ipc::open(with_file(shorter), stream), Errc::corrupt_descriptor, std::to_string(length));
  }
  Bytes longer(bytes().begin(), bytes().end());
  longer.resize(300);
  EXPECT_ERROR(ipc::open(with_file(longer), stream), Errc::corrupt_descriptor, "300");
}

TEST_P(Malformed, ForgedFieldsWithAFittingChecksum) {
  struct Case {
    const wire::Field& field;
    std::uint64_t value;
    Errc condition = Errc::corrupt_descriptor;
  };
  constexpr std::uint64_t max = UINT64_MAX;
  const Case cases[] = {
      {wire::version, 7, Errc::incompatible},
      {wire::handle, 99},
      {wire::kind, 99},
      {wire::kind, static_cast<std::uint64_t>(MemoryKind::external)},
      {wire::fd_count, 5},
      {wire::flags, 0xf0},
      {wire::segment_size, 0},
      {wire::segment_size, max},
      {wire::offset, max},
      {wire::bytes, max},
      {wire::bytes, wire::get(bytes(), wire::segment_size) + 1},
      {wire::alignment, 3},
  };
  for (const Case& c : cases) {
    EXPECT_ERROR(ipc::open(with_file(wire::with(bytes(), c.field, c.value)), stream), c.condition, c.field.name)
        << c.value;
  }
}

TEST_P(Malformed, AnotherIdentity) {
  for (const wire::Field& field : {wire::device, wire::boot}) {
    for (const std::size_t at : {field.offset, field.offset + 15}) {
      EXPECT_ERROR(ipc::open(with_file(wire::flipped(bytes(), at, std::byte{1})), stream), Errc::incompatible,
                   field.name);
    }
  }
  EXPECT_ERROR(ipc::open(with_file(wire::flipped(bytes(), wire::driver.offset, std::byte{1})), stream),
               Errc::incompatible, "driver");
  EXPECT_ERROR(ipc::open(with_file(wire::flipped(bytes(), wire::backend.offset, std::byte{1})), stream),
               Errc::corrupt_descriptor, "backend");
}

TEST_P(Malformed, HandlesAndKindsOfOtherBackends) {
  const std::uint64_t own_handle = wire::get(bytes(), wire::handle);
  for (std::uint64_t handle = 1; handle <= 3; ++handle) {
    if (handle == own_handle) continue;
    EXPECT_ERROR(ipc::open(with_file(wire::with(bytes(), wire::handle, handle)), stream), Errc::incompatible, "handle");
  }
  for (std::uint64_t kind = 0; kind <= static_cast<std::uint64_t>(MemoryKind::external); ++kind) {
    const KindInfo* known = device().find(static_cast<MemoryKind>(kind));
    if (known && known->exportable) continue;
    EXPECT_TRUE(refused(with_file(wire::with(bytes(), wire::kind, kind)))) << kind;
  }
}

TEST_P(Malformed, SegmentsLargerThanTheFile) {
  const std::uint64_t truth = wire::get(bytes(), wire::segment_size);
  for (const std::uint64_t claimed :
       {truth + 1, truth + 4096, 2 * truth, 16 * truth, std::uint64_t{1} << 40U, std::uint64_t{1} << 61U}) {
    EXPECT_TRUE(refused(with_file(wire::with(bytes(), wire::segment_size, claimed)))) << claimed;
  }
}

TEST_P(Malformed, WrongNumberOfFiles) {
  EXPECT_ERROR(ipc::open(with_files({}), stream), Errc::corrupt_descriptor, "0 file descriptors");
  for (int extra = 1; extra < 4; ++extra) {
    auto fds = files();
    for (int i = 0; i < extra; ++i) fds.push_back(descriptor->fds()[0].duplicate());
    EXPECT_ERROR(ipc::open(with_files(std::move(fds)), stream), Errc::corrupt_descriptor, "file descriptors");
  }
  std::vector<UniqueFd> none(descriptor->fds().size());
  EXPECT_ERROR(ipc::open(with_files(std::move(none)), stream), Errc::corrupt_descriptor, "missing");
}

TEST_P(Malformed, FilesOfAnotherKind) {
  struct Kind {
    const char* name;
    std::function<UniqueFd()> open;
  };
  // Reading these blocks.
  auto open_socket = socket_pair(SOCK_STREAM);
  int both[2] = {-1, -1};
  ASSERT_EQ(pipe2(both, O_CLOEXEC), 0);
  std::pair<UniqueFd, UniqueFd> open_pipe{both[0], both[1]};
  const auto bytes_there = static_cast<off_t>(wire::get(bytes(), wire::segment_size));
  const Kind kinds[] = {
      {"/dev/null", [] { return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }},
      {"/dev/zero", [] { return UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)); }},
      {"directory", [] { return UniqueFd(::open("/", O_RDONLY | O_CLOEXEC)); }},
      {"empty memfd", [] { return UniqueFd(memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)); }},
      {"plain memfd of that size",
       [=] {
         UniqueFd file(memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
         EXPECT_EQ(ftruncate(file.get(), bytes_there), 0);
         return file;
       }},
      {"pipe",
       [] {
         int ends[2] = {-1, -1};
         EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
         ::close(ends[1]);
         return UniqueFd(ends[0]);
       }},
      {"socket", [] { return std::move(socket_pair(SOCK_STREAM).first); }},
      {"socket with a living peer", [&] { return std::exchange(open_socket.first, {}); }},
      {"pipe with a living writer", [&] { return std::exchange(open_pipe.first, {}); }},
      {"event", [] { return UniqueFd(eventfd(0, EFD_CLOEXEC)); }},
  };
  for (const Kind& kind : kinds) {
    auto fds = files();
    fds[0] = kind.open();
    ASSERT_TRUE(fds[0]) << kind.name;
    EXPECT_TRUE(refused(with_files(std::move(fds)))) << kind.name;
  }
}

TEST_P(Malformed, ReadyPointsThatAreNoStreamSockets) {
  const Bytes forged = wire::with(wire::with(bytes(), wire::flags, wire::get(bytes(), wire::flags) | 2U),
                                  wire::fd_count, descriptor->fds().size() + 1);
  const auto second = [&](UniqueFd fd) {
    auto fds = files();
    fds.insert(fds.begin() + 1, std::move(fd));
    return ipc::Descriptor(forged, std::move(fds));
  };
  EXPECT_ERROR(ipc::open(second(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))), stream), Errc::corrupt_descriptor,
               "ready");
  EXPECT_ERROR(ipc::open(second(UniqueFd(memfd_create("x", MFD_CLOEXEC))), stream), Errc::corrupt_descriptor, "ready");
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd writing(ends[1]);
  EXPECT_ERROR(ipc::open(second(UniqueFd(ends[0])), stream), Errc::corrupt_descriptor, "ready");
  EXPECT_ERROR(ipc::open(second(std::move(socket_pair(SOCK_DGRAM).first)), stream), Errc::corrupt_descriptor, "ready");
  UniqueFd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr unnamed{AF_UNIX, {}};
  ASSERT_EQ(bind(listening.get(), &unnamed, sizeof unnamed.sa_family), 0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  EXPECT_ERROR(ipc::open(second(std::move(listening)), stream), Errc::corrupt_descriptor, "ready");
  EXPECT_ERROR(ipc::open(second(UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))), stream),
               Errc::corrupt_descriptor, "ready");
  EXPECT_ERROR(ipc::open(with_file(forged), stream), Errc::corrupt_descriptor, "file descriptors");
}

TEST_P(Malformed, LeasesThatAreNoWriteEndsOfPipes) {
  const Bytes forged =
      wire::with(wire::with(bytes(), wire::flags, wire::get(bytes(), wire::flags) | 4U), wire::fd_count, 2);
  const auto open_with = [&](UniqueFd lease) {
    EXPECT_TRUE(lease);
    auto fds = files();
    fds.resize(1);
    fds.push_back(std::move(lease));
    return ipc::open(ipc::Descriptor(forged, std::move(fds)), stream);
  };
  const auto [reads, writes] = pipe_pair();
  const auto refused = [&](UniqueFd lease, const char* what) {
    SCOPED_TRACE(what);
    EXPECT_ERROR(open_with(std::move(lease)), Errc::corrupt_descriptor, "lease");
  };
  refused(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), "read-only device");
  refused(UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)), "write-only device");
  refused(UniqueFd(memfd_create("x", MFD_CLOEXEC)), "memfd");
  refused(UniqueFd(eventfd(0, EFD_CLOEXEC)), "event");
  refused(std::move(socket_pair(SOCK_STREAM).first), "socket, which others could shut down");
  refused(reads.duplicate(), "read end, which keeps nothing");
  refused(reopened(writes.get(), O_RDWR), "both ends");
  refused(reopened(writes.get(), O_PATH), "a path to it");
  Buffer opened = open_with(writes.duplicate());
  EXPECT_BYTES(read(opened, stream), pattern(size, 1));
}

// Pages of a file that may shrink vanish under a reader, and one that grows is not what its descriptor says.
TEST(MalformedHostFile, ThatIsNotSealedIsRefused) {
  const Stream stream(host_device());
  const Buffer buffer = host::make_shared_resource()->allocate(64, stream);
  const ipc::Descriptor genuine = buffer.ipc_descriptor(stream);
  const auto bytes = static_cast<off_t>(wire::get(genuine.bytes(), wire::segment_size));
  const auto open_with = [&](unsigned flags, int seals) {
    std::vector<UniqueFd> fds;
    fds.emplace_back(memfd_create("stranger", MFD_CLOEXEC | flags));
    EXPECT_EQ(posix_fallocate(fds[0].get(), 0, bytes), 0);
    if (seals != 0) {
      EXPECT_EQ(fcntl(fds[0].get(), F_ADD_SEALS, seals), 0);
    }
    return ipc::open({genuine.bytes(), std::move(fds)}, stream);
  };
  constexpr auto corrupt = Errc::corrupt_descriptor;
  EXPECT_ERROR(open_with(0, 0), corrupt, "not sealed against shrinking and growing, and takes no further seals");
  EXPECT_ERROR(open_with(MFD_ALLOW_SEALING, 0), corrupt, "not sealed against shrinking and growing");
  EXPECT_ERROR(open_with(MFD_ALLOW_SEALING, F_SEAL_SHRINK), corrupt, "not sealed against growing");
  EXPECT_ERROR(open_with(MFD_ALLOW_SEALING, F_SEAL_GROW), corrupt, "not sealed against shrinking");
  EXPECT_ERROR(open_with(MFD_ALLOW_SEALING, F_SEAL_GROW | F_SEAL_SEAL), corrupt,
               "not sealed against shrinking, and takes no further seals");
  EXPECT_EQ(open_with(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_GROW).size(), 64U);
}

// Whoever reads such a file takes memory for the sender: pages, or huge pages, of which there may be none left.
TEST(MalformedHostFile, ThatHasNoMemoryBehindItIsRefused) {
  const Stream stream(host_device());
  constexpr std::size_t size = std::size_t{4} << 20;
  const Buffer buffer = host::make_shared_resource()->allocate(size, stream);
  const ipc::Descriptor genuine = buffer.ipc_descriptor(stream);
  const auto open_with = [&](unsigned flags, std::size_t reserved) {
    std::vector<UniqueFd> fds;
    fds.emplace_back(memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    EXPECT_TRUE(fds[0]) << std::generic_category().message(errno);
    EXPECT_EQ(ftruncate(fds[0].get(), static_cast<off_t>(size)), 0);
    if (reserved != 0) {
      EXPECT_EQ(posix_fallocate(fds[0].get(), 0, static_cast<off_t>(reserved)), 0);
    }
    EXPECT_EQ(fcntl(fds[0].get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return ipc::open({genuine.bytes(), std::move(fds)}, stream);
  };
  constexpr auto corrupt = Errc::corrupt_descriptor;
  EXPECT_ERROR(open_with(0, 0), corrupt, "reserved only 0 of them");
  EXPECT_ERROR(open_with(0, size - 4096), corrupt, "reserved only 4190208 of them");
  EXPECT_EQ(open_with(0, size).size(), size);
  if (UniqueFd(memfd_create("x", MFD_CLOEXEC | MFD_HUGETLB))) {
    EXPECT_ERROR(open_with(MFD_HUGETLB, 0), corrupt, "huge pages");
  }
}

// The sender may give less than its descriptor says.
TEST(MalformedHostFile, ThatMayOnlyBeReadIsRefusedUnlessNoMoreIsAskedFor) {
  const Stream stream(host_device());
  Buffer buffer = host::make_shared_resource()->allocate(64, stream);
  write(buffer, pattern(64, 1), stream);
  stream.synchronize();
  const ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
  const auto open_with = [&](std::span<const std::byte> bytes) {
    std::vector<UniqueFd> fds;
    const auto path = "/proc/self/fd/" + std::to_string(descriptor.fds()[0].get());
    fds.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return ipc::open({bytes, std::move(fds)}, stream);
  };
  const auto before = open_fds();
  EXPECT_ERROR(open_with(descriptor.bytes()), Errc::permission_denied, "mmap");
  EXPECT_FDS(before);
  const Bytes for_reading = wire::with(descriptor.bytes(), wire::flags, 1);
  EXPECT_BYTES(read(open_with(for_reading), stream), pattern(64, 1));
}

TEST_P(Malformed, ReadOnlyIsObeyed) {
  const Bytes forged = wire::with(bytes(), wire::flags, wire::get(bytes(), wire::flags) | 1U);
  Buffer opened = ipc::open(with_file(forged), stream);
  EXPECT_TRUE(opened.is_read_only());
  EXPECT_ERROR(opened.fill(std::uint8_t{0}, stream), Errc::permission_denied, "read-only");
  EXPECT_BYTES(read(opened, stream), pattern(size, 1));
}

}  // namespace
}  // namespace weir::test
