// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls of the modelled driver of fake/ by the tests themselves, and what it tells of them.

#include <optional>
#include <string>

#include "modelled_driver.hpp"
#include "native.hpp"
#include "settle.hpp"

namespace weir::cuda_test {

#define WEIR_TEXT(name) #name
#define WEIR_NAME(name) WEIR_TEXT(name)
// By the name that cuda.h gives it.
#define MODEL(name) reinterpret_cast<decltype(&::name)>(test::find_in_model(WEIR_NAME(name)))

/// With two streams and some memory of the application's, its primary context current.
class Model : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!test::find_in_model("fake_cuda_violations")) GTEST_SKIP() << "real drivers do not tell of broken rules";
    test::await_releases();  // memory of earlier tests goes back behind them
    current_.emplace(primary());
    ASSERT_CU(MODEL(cuStreamCreate)(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(MODEL(cuStreamCreate)(&other_, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(MODEL(cuMemAlloc)(&memory_, bytes));
    ASSERT_EQ(test::take_violations(), "");
  }
  void TearDown() override {
    for (CUstream each : {stream_, other_}) {
      if (!each) continue;
      finish(each);
      EXPECT_CU(MODEL(cuStreamDestroy)(each));
    }
    if (memory_ != 0) {
      EXPECT_CU(MODEL(cuMemFree)(memory_));
    }
  }

  static void finish(CUstream stream) { EXPECT_CU(MODEL(cuStreamSynchronize)(stream)); }
  CUresult fill(CUdeviceptr at, std::size_t count, CUstream stream) {
    return MODEL(cuMemsetD8Async)(at, 1, count, stream);
  }
  /// It was told of, in these words.
  static void expect_told(const std::string& words) {
    const std::string told = test::take_violations();
    EXPECT_NE(told.find(words), std::string::npos) << "wanted: " << words << "; told: " << told;
  }

  static constexpr std::size_t bytes = 8192;
  std::optional<Current> current_;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUdeviceptr memory_ = 0;
};

#define EXPECT_REFUSED(expression, code, words) \
  EXPECT_EQ((expression), code);                \
  expect_told(words)

}  // namespace weir::cuda_test
