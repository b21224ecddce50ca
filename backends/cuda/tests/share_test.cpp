// SPDX-License-Identifier: Apache-2.0
// Handles of VMM memory, exported and imported within one process; a second process is the IPC suite's.
#include <fcntl.h>
#include <unistd.h>

#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/resources.hpp"

namespace weir::cuda_test {
namespace {

using test::pattern;

class Share : public CudaTest {
 protected:
  static constexpr std::size_t size = 4 << 20;

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const KindInfo* vmm = gpu().find(MemoryKind::vmm);
    if (!vmm || !vmm->exportable) GTEST_SKIP() << "this device exports no memory";
    resource = cuda::make_vmm_resource(gpu(), {.exportable = true});
  }

  static const spi::SegmentOps& ops() { return *gpu().state().backend->segments; }
  static spi::Ref<spi::Segment> import(spi::UniqueFd fd, std::size_t bytes, bool read_only = false) {
    spi::StrangerFd file(std::move(fd));
    return spi::Ref<spi::Segment>::adopt(ops().import_handle(gpu().state(), {.kind = spi::HandleKind::cuda_vmm_fd,
                                                                            .fd = file,
                                                                            .size = bytes,
                                                                            .memory_kind = MemoryKind::vmm,
                                                                            .read_only = read_only}));
  }
  ResourcePtr resource;
};

TEST_F(Share, AnImportIsTheSameMemory) {
  const Stream stream(gpu());
  const auto bytes = pattern(size, 8);
  Buffer buffer = resource->allocate(size, stream);
  test::write(buffer, bytes, stream);
  auto exported = ops().export_handle(*buffer.location().segment);
  EXPECT_EQ(exported.kind, spi::HandleKind::cuda_vmm_fd);
  EXPECT_EQ(fcntl(exported.fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  auto segment = import(std::move(exported.fd), buffer.location().segment->size);
  EXPECT_NE(segment->address, buffer.device_address());
  EXPECT_TRUE(segment->imported);
  Buffer again = spi::make_adopted_buffer(segment, 0, size, stream);
  EXPECT_BYTES(test::read(again, stream), bytes);
  again.fill(std::byte{5}, 10, 20, stream);
  EXPECT_EQ(test::read(buffer, stream).at(29), std::byte{5});
}

TEST_F(Share, MemoryOutlivesTheExporter) {
  const Stream stream(gpu());
  const auto bytes = pattern(size, 9);
  Buffer buffer = resource->allocate(size, stream);
  test::write(buffer, bytes, stream);
  stream.synchronize();
  auto exported = ops().export_handle(*buffer.location().segment);
  buffer.close();
  (void)resource->trim(0);
  Buffer again = spi::make_adopted_buffer(import(std::move(exported.fd), size), 0, size, stream);
  EXPECT_BYTES(test::read(again, stream), bytes);
}

// Whoever writes there with its own kernels learns it from the driver, and not from what others read later.
TEST_F(Share, WhatIsOpenedForReadingCannotBeWritten) {
  const Stream stream(gpu());
  const Buffer buffer = resource->allocate(size, stream);
  const auto access = [&](bool read_only) {
    const auto segment = import(ops().export_handle(*buffer.location().segment).fd, size, read_only);
    EXPECT_EQ(segment->read_only, read_only);
    const CUmemLocation here{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags = 0;
    EXPECT_CU(api().MemGetAccess(&flags, &here, segment->address));
    return flags;
  };
  EXPECT_EQ(access(false), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(access(true), CU_MEM_ACCESS_FLAGS_PROT_READ);
}

TEST_F(Share, NothingIsOpenedForWritingBecauseTheDriverRefusesLess) {
  if (!test::find_in_model("fake_cuda_fail")) GTEST_SKIP() << "real drivers refuse nothing on demand";
  const auto fail = reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"));
  const Stream stream(gpu());
  const Buffer buffer = resource->allocate(size, stream);
  auto exported = ops().export_handle(*buffer.location().segment);
  fail("cuMemSetAccess", 1, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_ERROR(import(std::move(exported.fd), size, true), Errc::unsupported, "cuMemSetAccess");
  fail("", 0, 0);
}

TEST_F(Share, WrongSizesAndFilesFailAndLeaveNothing) {
  const Stream stream(gpu());
  Buffer buffer = resource->allocate(size, stream);
  spi::Segment& segment = *buffer.location().segment;
  const auto fails = [&](spi::UniqueFd fd, std::size_t bytes) {
    try {
      import(std::move(fd), bytes);
      return false;
    } catch (const Error& error) {
      return error.code() == Errc::corrupt_descriptor || error.code() == Errc::incompatible;
    }
  };
  fails(ops().export_handle(segment).fd, segment.size * 2);  // the driver may open files of its own once
  const auto files = test::open_fds();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(fails(ops().export_handle(segment).fd, segment.size * 2)) << "larger than the memory";
    EXPECT_TRUE(fails(ops().export_handle(segment).fd, segment.size / 2)) << "smaller than the memory";
    EXPECT_TRUE(fails(ops().export_handle(segment).fd, segment.size - 1));
    EXPECT_TRUE(fails(ops().export_handle(segment).fd, 0));
    EXPECT_TRUE(fails(spi::UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)), segment.size));
    EXPECT_TRUE(fails(spi::UniqueFd(), segment.size));
  }
  EXPECT_FDS(files);
  EXPECT_TRUE(import(ops().export_handle(segment).fd, segment.size));
}

TEST_F(Share, ReservedAddressesAreAtLeastAsManyAsAskedFor) {
  const std::size_t granule = gpu().find(MemoryKind::vmm)->granularity;
  for (const std::size_t bytes : {std::size_t{1}, granule - 1, granule, granule + 1, 3 * granule}) {
    const auto reserved =
        spi::Ref<spi::PagedSegment>::adopt(ops().reserve_addresses(gpu().state(), MemoryKind::vmm, bytes, false));
    EXPECT_EQ(reserved->size, (bytes + granule - 1) / granule * granule);
  }
}

TEST_F(Share, OnlyWhatWasAskedForIsExported) {
  const Stream stream(gpu());
  Buffer buffer = cuda::make_vmm_resource(gpu())->allocate(size, stream);
  EXPECT_ERROR(ops().export_handle(*buffer.location().segment), Errc::unsupported, "not made to be shared");
  const auto types = [](const Buffer& of) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties{};
    EXPECT_CU(api().MemRetainAllocationHandle(&handle, reinterpret_cast<void*>(cuda::pointer(of))));
    EXPECT_CU(api().MemGetAllocationPropertiesFromHandle(&properties, handle));
    EXPECT_CU(api().MemRelease(handle));
    return properties.requestedHandleTypes;
  };
  EXPECT_EQ(types(buffer), CU_MEM_HANDLE_TYPE_NONE);
  EXPECT_EQ(types(resource->allocate(size, stream)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  EXPECT_FALSE(ops().imports(gpu().state(), spi::HandleKind::host_memfd));
}

}  // namespace
}  // namespace weir::cuda_test
