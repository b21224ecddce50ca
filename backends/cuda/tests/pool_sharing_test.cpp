// SPDX-License-Identifier: Apache-2.0
// Pools of the driver between processes, in the driver's own form.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "model.hpp"
#include "spawn.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/interop/cuda_pools.hpp"
#include "weir/ipc.hpp"

namespace weir::cuda_test {
namespace {

using test::Child, test::pattern;

constexpr std::size_t size = 100'001;
constexpr char program[] = WEIR_CHILD_DIR "/cuda_pool_child";

class PoolSharing : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!gpu().find(MemoryKind::async)) GTEST_SKIP() << "no driver pools here";
    try {
      resource = cuda::make_async_resource(gpu(), {.exportable = true});
    } catch (const Error& refused) {
      GTEST_SKIP() << "no pools here that can be shared: " << refused.what();
    }
  }

  [[nodiscard]] Buffer filled(const Stream& stream) const {
    Buffer buffer = resource->allocate(size, stream);
    test::write(buffer, pattern(size, 1), stream);
    stream.synchronize();
    return buffer;
  }
  void send(const Child& child, const Buffer& buffer) const {
    std::array<std::byte, ipc::Descriptor::size> bytes{};
    std::ranges::copy(cuda::export_pointer(buffer), bytes.begin());
    std::vector<spi::UniqueFd> files;
    files.push_back(cuda::export_pool(resource));
    ipc::send(child.socket(), {bytes, std::move(files)});
  }

  /// The files that are open, and the flags of each.
  static std::map<int, int> file_flags() {
    std::map<int, int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int file = std::stoi(entry.path().filename());
      const int flags = ::fcntl(file, F_GETFD);
      if (flags >= 0) found.emplace(file, flags);
    }
    return found;
  }
  /// Pools that the model has not seen end.
  static long pools() {
    char text[2000];
    reinterpret_cast<void (*)(char*, std::size_t)>(test::find_in_model("fake_cuda_objects"))(text, sizeof text);
    long made = 0, ended = 0;
    const char* const line = std::strstr(text, "pools ");
    EXPECT_EQ(line ? std::sscanf(line, "pools %ld made, %ld destroyed", &made, &ended) : 0, 2);
    return made - ended;
  }

  ResourcePtr resource;
};

TEST_F(PoolSharing, AnotherProcessChangesTheMemory) {
  const Stream stream(gpu());
  for (const char* mode : {"once", "twice", "again", "refuse"}) {
    SCOPED_TRACE(mode);
    const Buffer buffer = filled(stream);
    Child child(program, {mode, std::to_string(size)});
    send(child, buffer);
    EXPECT_EQ(child.line(), "done");
    EXPECT_EQ(child.wait(), 0);
    EXPECT_BYTES(test::read(buffer, stream), pattern(size, 2));
  }
}

TEST_F(PoolSharing, TheMemoryIsTheOnlyOneThatIsNamed) {
  const Stream stream(gpu());
  const Buffer one = filled(stream), two = filled(stream);
  Child child(program, {"once", std::to_string(size)});
  send(child, two);
  EXPECT_EQ(child.line(), "done");
  EXPECT_BYTES(test::read(one, stream), pattern(size, 1));
  EXPECT_BYTES(test::read(two, stream), pattern(size, 2));
}

TEST_F(PoolSharing, NamesAreOfWholeAllocations) {
  const Stream stream(gpu());
  const Buffer buffer = filled(stream);
  EXPECT_EQ(cuda::export_pointer(buffer), cuda::export_pointer(buffer.slice(0, 100)));
  EXPECT_ERROR(cuda::export_pointer(buffer.slice(256, 100)), Errc::invalid_argument, "256 bytes inside");
  EXPECT_ERROR(cuda::export_pointer(resource->allocate(0, stream)), Errc::invalid_argument, "zero bytes");
}

TEST_F(PoolSharing, OtherMemoryIsRefused) {
  const Stream stream(gpu());
  const auto before = test::open_fds();
  for (const ResourcePtr& other : {cuda::make_async_resource(gpu()), cuda::make_device_resource(gpu())}) {
    EXPECT_ERROR(cuda::export_pool(other), Errc::unsupported, "exportable = true");
    EXPECT_ERROR(cuda::export_pointer(other->allocate(64, stream)), Errc::unsupported, other->name());
  }
  EXPECT_ERROR(cuda::export_pool(nullptr), Errc::unsupported, "null");
  EXPECT_ERROR(cuda::export_pool(make_limiting(resource, 1 << 20)), Errc::unsupported, "no pool of the CUDA driver");
  EXPECT_FDS(before);
}

TEST_F(PoolSharing, FilesThatNameNoPoolAreRefused) {
  const auto before = test::open_fds();
  for (int round = 0; round < 3; ++round) {
    EXPECT_ERROR(cuda::ImportedPool(gpu(), spi::UniqueFd(memfd_create("no pool", MFD_CLOEXEC))),
                 Errc::corrupt_descriptor, "names no memory pool");
    EXPECT_ERROR(cuda::ImportedPool(gpu(), test::socket_pair(SOCK_STREAM).first), Errc::corrupt_descriptor,
                 "names no memory pool");
  }
  EXPECT_ERROR(cuda::ImportedPool(host_device(), cuda::export_pool(resource)), Errc::incompatible,
               "is not a CUDA device");
  EXPECT_FDS(before);
}

// Programs that this one starts must not get the memory.
TEST_F(PoolSharing, ItsFilesAreClosedOnExec) {
  const auto before = file_flags();
  const auto shared = cuda::make_async_resource(gpu(), {.exportable = true});
  const spi::UniqueFd file = cuda::export_pool(shared);
  EXPECT_NE(file_flags().at(file.get()) & FD_CLOEXEC, 0);
  for (const auto& [opened, flags] : file_flags()) {
    EXPECT_TRUE(before.contains(opened) || (flags & FD_CLOEXEC) != 0) << opened;
  }
}

// In one process, which the model allows.
TEST_F(PoolSharing, TheMemoryOfOneDeviceIsNotOpenedOnAnother) {
  if (!test::find_in_model("fake_cuda_live")) GTEST_SKIP() << "real drivers import a pool in other processes only";
  const auto all = devices();
  if (std::ranges::count(all, "cuda", &Device::backend) < 2) GTEST_SKIP() << "there is one CUDA device";
  const Device second = cuda::device(1);
  const Stream stream(gpu()), there(second);
  const Buffer buffer = filled(stream);
  const auto name = cuda::export_pointer(buffer);
  const cuda::ImportedPool pool(gpu(), cuda::export_pool(resource)), other(second, cuda::export_pool(resource));
  EXPECT_ERROR(other.open(name, size, there), Errc::incompatible, "is that of CUDA device 0, not of ");
  const Buffer opened = pool.open(name, size, stream);
  EXPECT_ERROR(other.open(name, size, there), Errc::incompatible, "is open on cuda:0");
}

// In one process, which the model allows.
TEST_F(PoolSharing, RefusedImportsLeaveNothing) {
  const auto fail = reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"));
  const auto live = reinterpret_cast<std::size_t (*)()>(test::find_in_model("fake_cuda_live"));
  if (!fail || !live) GTEST_SKIP() << "real drivers do not fail on demand";
  const Stream stream(gpu());
  const Buffer buffer = filled(stream);
  const auto name = cuda::export_pointer(buffer);
  const auto use = [&] { (void)cuda::ImportedPool(gpu(), cuda::export_pool(resource)).open(name, size, stream); };
  use();
  test::await_releases();
  const auto fds = test::open_fds(), live_before = live();
  const auto pools_before = pools();
  const auto make = [&] { (void)cuda::make_async_resource(gpu(), {.exportable = true})->allocate(64, stream); };
  const auto refused = [&](const char* call, const auto& what) {
    SCOPED_TRACE(call);
    fail(call, 1, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_ERROR(what(), Errc::unsupported, call);
    fail("", 0, 0);
    EXPECT_EQ(pools(), pools_before);
    EXPECT_EQ(live(), live_before);
    EXPECT_FDS(fds);
    use();
  };
  refused("cuMemPoolExportToShareableHandle", make);
  for (const char* call :
       {"cuStreamCreate", "cuMemPoolImportFromShareableHandle", "cuMemPoolImportPointer", "cuPointerGetAttribute"}) {
    refused(call, use);
  }
  EXPECT_EQ(test::take_violations(), "");
}

// The model's rules, which the tests above are held to.
class ModelledSharing : public Model {
 protected:
  void SetUp() override {
    Model::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    CUmemPoolProps properties{};
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    ASSERT_CU(MODEL(cuMemPoolCreate)(&pool_, &properties));
    int fd = -1;
    ASSERT_CU(MODEL(cuMemPoolExportToShareableHandle)(&fd, pool_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    const spi::UniqueFd file(fd);
    auto* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
    ASSERT_CU(MODEL(cuMemPoolImportFromShareableHandle)(&import_, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    ASSERT_CU(MODEL(cuMemAllocFromPoolAsync)(&at_, bytes, pool_, stream_));
    ASSERT_CU(MODEL(cuMemPoolExportPointer)(&name_, at_));
    ASSERT_CU(MODEL(cuMemPoolImportPointer)(&there_, import_, &name_));
    ASSERT_CU(MODEL(cuMemsetD8Async)(at_, 7, bytes, stream_));
    finish(stream_);
  }
  void TearDown() override {
    for (CUmemoryPool pool : {pool_, import_}) {
      if (pool) {
        EXPECT_CU(MODEL(cuMemPoolDestroy)(pool));
      }
    }
    Model::TearDown();
  }
  void free(CUdeviceptr address) const {
    EXPECT_CU(MODEL(cuMemFreeAsync)(address, stream_));
    finish(stream_);
  }

  CUmemoryPool pool_ = nullptr, import_ = nullptr;
  CUdeviceptr at_ = 0, there_ = 0;
  CUmemPoolPtrExportData name_{};
};

TEST_F(ModelledSharing, BothAddressesAreTheSameBytes) {
  EXPECT_NE(at_, there_);
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(there_), 7);
  free(there_);
  free(at_);
  EXPECT_EQ(test::take_violations(), "");
}

TEST_F(ModelledSharing, ImportersFreeFirst) {
  EXPECT_CU(MODEL(cuMemFreeAsync)(at_, stream_));
  finish(stream_);
  expect_told("freed before those that imported it");
  free(there_);
}

TEST_F(ModelledSharing, AnAllocationIsImportedOnce) {
  CUdeviceptr again = 0;
  EXPECT_REFUSED(MODEL(cuMemPoolImportPointer)(&again, import_, &name_), CUDA_SUCCESS, "is imported already");
  EXPECT_EQ(again, there_);
  free(there_);
  free(at_);
}

TEST_F(ModelledSharing, WhatIsNotThereIsRefused) {
  CUmemPoolPtrExportData wrong{};
  CUdeviceptr none = 0;
  EXPECT_EQ(MODEL(cuMemPoolImportPointer)(&none, import_, &wrong), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(MODEL(cuMemPoolImportPointer)(&none, pool_, &name_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(MODEL(cuMemPoolExportPointer)(&wrong, memory_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_REFUSED(MODEL(cuMemAllocFromPoolAsync)(&none, bytes, import_, stream_), CUDA_ERROR_INVALID_VALUE,
                 "an imported pool gives no memory");
  free(there_);
  free(at_);
  EXPECT_EQ(MODEL(cuMemPoolImportPointer)(&none, import_, &name_), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace weir::cuda_test
