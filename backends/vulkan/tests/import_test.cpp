// SPDX-License-Identifier: Apache-2.0
// File descriptors from strangers.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "vulkan/backend.hpp"
#include "weir/spi/resources.hpp"

namespace weir::vulkan::test {

class Imports : public OnVulkan {
 protected:
  void SetUp() override {
    OnVulkan::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    if (!device().find(MemoryKind::device)->exportable) GTEST_SKIP() << "this driver shares no memory";
    memory_ = make_device_resource(device(), {.exportable = true})->allocate(100'000, Stream{device()});
  }
  [[nodiscard]] spi::UniqueFd exported() const {
    return backend()->segments->export_handle(*memory_.location().segment).fd;
  }
  [[nodiscard]] std::size_t size() const { return memory_.location().segment->size; }
  spi::Ref<spi::Segment> open(spi::UniqueFd fd, std::size_t bytes, MemoryKind kind = MemoryKind::device) const {
    spi::StrangerFd file(std::move(fd));
    return spi::Ref<spi::Segment>::adopt(backend()->segments->import_handle(
        device().state(), {spi::HandleKind::vulkan_opaque_fd, file, bytes, kind, false}));
  }

  Buffer memory_;
};

TEST_F(Imports, SeeTheSameBytesInBothDirections) {
  const Stream stream{device()};
  memory_.fill(std::byte{1}, stream);
  stream.synchronize();
  auto fd = exported();
  EXPECT_TRUE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC);
  auto segment = open(std::move(fd), size());
  EXPECT_TRUE(segment->imported);
  Buffer there = spi::make_adopted_buffer(segment, 0, 100'000, stream);
  segment = {};
  std::byte byte{};
  there.copy_to(std::span(&byte, 1), stream);
  stream.synchronize();
  EXPECT_EQ(byte, std::byte{1});
  there.fill(std::byte{2}, stream);
  stream.synchronize();
  memory_.copy_to(std::span(&byte, 1), stream, 99'999);
  stream.synchronize();
  EXPECT_EQ(byte, std::byte{2});
}

TEST_F(Imports, OutliveTheExporter) {
  const Stream stream{device()};
  memory_.fill(std::byte{7}, stream);
  stream.synchronize();
  auto fd = exported();
  const auto bytes = size();
  memory_.close();
  make_device_resource(device())->trim(0);
  auto segment = open(std::move(fd), bytes);
  Buffer there = spi::make_adopted_buffer(segment, 0, bytes, stream);
  std::byte byte{};
  there.copy_to(std::span(&byte, 1), stream);
  stream.synchronize();
  EXPECT_EQ(byte, std::byte{7});
}

TEST_F(Imports, LeaveNoDescriptorBehind) {
  (void)open(exported(), size());  // the driver may keep files of its own
  const auto before = weir::test::open_fds();
  for (int i = 0; i < 20; ++i) (void)open(exported(), size());
  EXPECT_FDS(before);
}

TEST_F(Imports, BadDescriptorsAreRefusedAndClosedOnce) {
  const auto fresh = [](int fd) { return spi::UniqueFd(fd); };
  const auto before = weir::test::open_fds();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW((void)open(fresh(::open("/dev/null", O_RDWR | O_CLOEXEC)), size()), Error);
    EXPECT_THROW((void)open(fresh(memfd_create("stranger", MFD_CLOEXEC)), size()), Error);
    EXPECT_THROW((void)open(spi::UniqueFd(), size()), Error);
    // A descriptor that takes the number of one that was closed must survive.
    const int witness = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    EXPECT_THROW((void)open(fresh(::open("/dev/null", O_RDWR | O_CLOEXEC)), size()), Error);
    EXPECT_GE(fcntl(witness, F_GETFD), 0);
    ::close(witness);
  }
  EXPECT_FDS(before);
}

TEST_F(Imports, MemoryCanBeAllocatedAfterRefusals) {
  const auto resource = make_device_resource(device(), {.exportable = true});
  const Stream stream{device()};
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW((void)open(spi::UniqueFd(memfd_create("stranger", MFD_CLOEXEC)), size()), Error);
    EXPECT_TRUE(resource->try_allocate(1000, stream));
    (void)open(exported(), size());
  }
}

TEST_F(Imports, WrongSizesAndKindsAreRefused) {
  const auto before = weir::test::open_fds();
  EXPECT_ERROR(open(exported(), 0), Errc::corrupt_descriptor, "0 bytes");
  EXPECT_ERROR(open(exported(), size() - 1), Errc::corrupt_descriptor, "bytes");
  EXPECT_THROW((void)open(exported(), size() * 2), Error);
  EXPECT_THROW((void)open(exported(), std::size_t{1} << 50), Error);
  EXPECT_ERROR(open(exported(), size(), MemoryKind::managed), Errc::unsupported, "managed");
  EXPECT_FDS(before);
}

TEST_F(Imports, OnlyExportableMemoryIsExported) {
  Buffer plain = make_device_resource(device())->allocate(64, Stream{device()});
  EXPECT_ERROR(backend()->segments->export_handle(*plain.location().segment), Errc::unsupported, "not made exportable");
}

}  // namespace weir::vulkan::test
