// SPDX-License-Identifier: Apache-2.0
// Devices and drivers that lack something, each in a process of its own. Needs the driver of fake/.
#include "alone.hpp"
#include "bytes.hpp"
#include "expect.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

class DISABLED_AloneOnCuda : public CudaTest {  // run by the tests below, with an environment
 protected:
  static void expect_works(const ResourcePtr& resource) {
    const Stream stream(gpu());
    const auto bytes = test::pattern(5000, 1);
    Buffer buffer = resource->allocate(bytes.size(), stream);
    test::write(buffer, bytes, stream);
    EXPECT_BYTES(test::read(buffer, stream), bytes);
  }
};

class Lacking : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!test::find_in_model("fake_cuda_fail")) GTEST_SKIP() << "real drivers lack nothing on demand";
  }
  static testing::AssertionResult passes_without(CUdevice_attribute attribute, const std::string& test,
                                                 const char* more = "FAKE_CUDA_VERSION=") {
    return test::passes_alone(test, {"FAKE_CUDA_LACKS=" + std::to_string(static_cast<int>(attribute)), more});
  }
};

TEST_F(DISABLED_AloneOnCuda, NoPools) {
  EXPECT_EQ(gpu().default_kind(), MemoryKind::device);
  EXPECT_ERROR(cuda::make_async_resource(gpu()), Errc::unsupported, "cuda:0 (Fake GPU) has no driver memory pools");
  expect_works(make_resource(gpu()));
}
TEST_F(Lacking, APoolIsUnsupported) {
  EXPECT_TRUE(passes_without(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "*AloneOnCuda.NoPools"));
}

TEST_F(DISABLED_AloneOnCuda, NoManaged) {
  EXPECT_ERROR(cuda::make_managed_resource(gpu()), Errc::unsupported, "has no memory of kind managed");
  expect_works(make_resource(gpu()));
}
TEST_F(Lacking, ManagedMemoryIsUnsupported) {
  EXPECT_TRUE(passes_without(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, "*AloneOnCuda.NoManaged"));
}

TEST_F(DISABLED_AloneOnCuda, NoHandles) {
  EXPECT_ERROR(cuda::make_vmm_resource(gpu(), {.exportable = true}), Errc::unsupported,
               "memory of kind vmm cannot be shared with other processes");
  expect_works(cuda::make_vmm_resource(gpu()));
}
TEST_F(Lacking, SharingIsUnsupported) {
  EXPECT_TRUE(passes_without(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "*AloneOnCuda.NoHandles"));
}

TEST_F(DISABLED_AloneOnCuda, NoLimit) {
  EXPECT_ERROR(cuda::make_async_resource(gpu(), {.max_size = 64 << 20}), Errc::unsupported,
               "a limit on a driver pool needs CUDA 12.2 or newer; there is CUDA driver 12.1");
  expect_works(cuda::make_async_resource(gpu()));
}
TEST_F(Lacking, ALimitIsUnsupported) {
  EXPECT_TRUE(test::passes_alone("*AloneOnCuda.NoLimit", {"FAKE_CUDA_VERSION=12010"}));
}

class DISABLED_Alone : public testing::Test {};
TEST_F(DISABLED_Alone, NoUnifiedAddressing) {
  for (const BackendInfo& backend : backends()) {
    if (backend.name != "cuda") continue;
    EXPECT_TRUE(backend.devices.empty());
    EXPECT_TRUE(backend.unavailable_because.starts_with("cuda:0 (Fake GPU) has no unified addressing"))
        << backend.unavailable_because;
  }
  EXPECT_ERROR(cuda::device(0), Errc::invalid_argument, "has no unified addressing");
}
TEST_F(Lacking, UnifiedAddressingIsNamedWhenNoDeviceIsLeft) {
  EXPECT_TRUE(passes_without(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "*Alone.NoUnifiedAddressing", "WEIR_REQUIRE="));
}

}  // namespace
}  // namespace weir::cuda_test
