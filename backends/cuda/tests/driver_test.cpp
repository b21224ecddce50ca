// SPDX-License-Identifier: Apache-2.0
// Errors, and what a machine without a usable driver is told. Most of this runs anywhere.
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <memory>

#include "cuda/errors.hpp"
#include "expect.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

TEST(Errors, PortableConditions) {
  EXPECT_EQ(cuda::code_of(CUDA_ERROR_OUT_OF_MEMORY), Errc::out_of_memory);
  EXPECT_EQ(cuda::code_of(CUDA_ERROR_ILLEGAL_ADDRESS), Errc::device_lost);
  EXPECT_EQ(cuda::code_of(CUDA_ERROR_ECC_UNCORRECTABLE), Errc::device_lost);
  EXPECT_EQ(cuda::code_of(CUDA_ERROR_LAUNCH_FAILED), Errc::device_lost);
  EXPECT_EQ(cuda::code_of(CUDA_ERROR_NOT_SUPPORTED), Errc::unsupported);
  EXPECT_EQ(cuda::code_of(CUDA_ERROR_INVALID_VALUE), Errc::invalid_argument);
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
