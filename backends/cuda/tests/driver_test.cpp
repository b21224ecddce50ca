// SPDX-License-Identifier: Apache-2.0
// Errors, and what a machine without a usable driver is told. Most of this runs anywhere.
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/errors.hpp"
#include "expect.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

TEST(Errors, PortableConditions) {
  const std::pair<Errc, std::vector<CUresult>> conditions[] = {
      {Errc::out_of_memory, {CUDA_ERROR_OUT_OF_MEMORY}},
      {Errc::invalid_argument,
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE}},
      {Errc::unsupported,
       {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_CAPTURED_EVENT}},
      {Errc::incompatible,
       {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED}},
      {Errc::permission_denied, {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_OPERATING_SYSTEM}},
      {Errc::timed_out, {CUDA_ERROR_TIMEOUT}},
      {Errc::device_lost,
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_UNKNOWN}}};
  for (const auto& [condition, results] : conditions) {
    for (const CUresult result : results) EXPECT_EQ(cuda::code_of(result), condition) << result;
  }
  EXPECT_NE(cuda::code_of(CUDA_ERROR_NO_DEVICE), Errc::device_lost);
  EXPECT_STREQ(cuda::category().name(), "cuda");
}

TEST(Errors, MessagesNameCallSizesAndCode) {
  try {
    cuda::check(CUDA_ERROR_INVALID_VALUE, "cuMemcpyAsync", std::size_t{4096}, " bytes");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("cuMemcpyAsync: 4096 bytes: "), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("(1)"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(cuda::check(CUDA_SUCCESS, "cuInit"));
}

// This program, listing the backends with another driver library.
std::string backends_with(const std::string& library) {
  const std::string command = "WEIR_REQUIRE= WEIR_CUDA_LIBRARY='" + library + "' '" + testing::internal::GetArgvs()[0] +
                              "' --gtest_filter=None.AtAll 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 512> part{};
  while (child && fgets(part.data(), static_cast<int>(part.size()), child.get())) text += part.data();
  return text;
}

TEST(Loading, AMissingDriverIsOneLine) {
  const auto text = backends_with("/nonexistent/libcuda.so.1");
  EXPECT_NE(text.find("cuda: no devices: the CUDA driver cannot be loaded (/nonexistent/libcuda.so.1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("host:0"), std::string::npos) << text;
}

TEST(Loading, AStrangeLibraryIsOneLine) {
  const auto text = backends_with("libm.so.6");
  EXPECT_NE(text.find("cuda: no devices: libm.so.6 is not a CUDA driver"), std::string::npos) << text;
}

class Devices : public CudaTest {};

TEST_F(Devices, DriverFailuresNameTheDevice) {
  const Stream stream(gpu());
  EXPECT_ERROR(cuda::device(99), Errc::invalid_argument, "cuda:0");
  try {
    cuda::check(CUDA_ERROR_ILLEGAL_ADDRESS, "cuEventQuery", gpu().state());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuEventQuery: cuda:0 ("), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weir::cuda_test
