// SPDX-License-Identifier: Apache-2.0
// A warm pool calls CUDA's driver for nothing, whatever memory it stands on, paged or not.
#include <gtest/gtest.h>

#include "driver.hpp"
#include "hold.hpp"
#include "warm.hpp"
#include "weir/cuda.hpp"

namespace weir::cuda_test {
namespace {

class WarmOnCuda : public testing::TestWithParam<test::WarmPath> {
 protected:
  void SetUp() override {
    for (const BackendInfo& backend : backends()) {
      if (backend.name == "cuda" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
    }
    if (!runs_over_shim()) GTEST_SKIP() << "WEIR_CUDA_LIBRARY is not the library that counts calls";
  }

  /// Calls of the driver that `function` makes. Streams do earlier work on threads of their own meanwhile.
  template <class F>
  static std::size_t calls_of(const FailingCuda& driver, F function) {
    const auto before = driver.calls();
    function();
    return driver.calls() - before;
  }

  static void run(const FailingCuda& driver, const ResourcePtr& upstream, bool paged) {
    test::WarmPool warm(upstream, paged);
    Buffer used = warm.pool->allocate(1000, warm.stream);
    test::warm_up(warm, GetParam());
    EXPECT_EQ(calls_of(driver, [&] { GetParam().run(warm); }), 0U);
    test::Hold hold;
    for (Stream* stream : {&warm.stream, &warm.other}) stream->wait(hold.event());
    used.fill(std::byte{1}, warm.stream);
    EXPECT_EQ(calls_of(driver, [&] { GetParam().run(warm); }), 0U) << "behind work that is held back";
    hold.open();
    for (Stream* stream : {&warm.stream, &warm.other}) stream->synchronize();
    used.fill(std::byte{2}, warm.stream);
    EXPECT_EQ(calls_of(driver, [&] { GetParam().run(warm); }), 0U) << "behind the device's work";
    EXPECT_GT(calls_of(driver, [&] { (void)warm.pool->allocate(std::size_t{100} << 20, warm.stream); }), 0U)
        << "growth calls it, so that the above proves something";
    warm.other.synchronize();
  }
};

TEST_P(WarmOnCuda, CallsNothing) {
  const FailingCuda driver;
  const Device device = cuda::device(0);
  for (const KindInfo& kind : device.kinds()) {
    for (const bool paged : {false, true}) {
      if (paged && !kind.paged) continue;
      SCOPED_TRACE(std::string(to_string(kind.kind)) + (paged ? ", paged" : ""));
      run(driver, make_resource(device, kind.kind), paged);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, WarmOnCuda, testing::ValuesIn(test::warm_paths()), test::WarmPathName());

}  // namespace
}  // namespace weir::cuda_test
