// SPDX-License-Identifier: Apache-2.0
#pragma once
// A driver that fails on demand: that of fake/.

#include <cstddef>

#include "cuda/device.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "weir/cuda.hpp"
#include "weir/memory_resource.hpp"

namespace weir::cuda_test {

class Failures : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    fail_ = reinterpret_cast<decltype(fail_)>(test::find_in_model("fake_cuda_fail"));
    live_ = reinterpret_cast<decltype(live_)>(test::find_in_model("fake_cuda_live"));
    calls_ = reinterpret_cast<decltype(calls_)>(test::find_in_model("fake_cuda_calls"));
    if (!fail_ || !live_ || !calls_) GTEST_SKIP() << "real drivers do not fail on demand";
    (void)test::take_reports();
    test::await_releases();  // of earlier tests: a refused allocation would find room in them
    test::await_threads();   // their calls of the driver would be the ones that fail
  }
  void TearDown() override {
    if (fail_) fail_("", 0, 0);
  }

  /// The next call of that name returns `code`.
  void fail_next(const char* call, CUresult code) { fail_next(call, 1, code); }
  void fail_next(const char* call, int nth, CUresult code) { fail_(call, nth, code); }
  void forget() { fail_("", 0, 0); }
  /// How often weir has made that call.
  std::size_t calls(const char* call) const { return calls_(call); }
  /// What the driver holds when weir and all streams have nothing to do.
  std::size_t live() {
    (void)cuda::make_device_resource(gpu())->trim(0);
    return live_();
  }

  /// Of the device.
  static std::size_t free_memory() { return static_cast<cuda::Gpu&>(gpu().state()).memory()->free; }

 private:
  void (*fail_)(const char*, int, int) = nullptr;
  std::size_t (*live_)() = nullptr;
  std::size_t (*calls_)(const char*) = nullptr;
};

}  // namespace weir::cuda_test
