// SPDX-License-Identifier: Apache-2.0
// A warm pool asks neither operator new nor the kernel for anything: whatever it asked would be refused.
// Vulkan's driver: vulkan_warm_test.cpp, CUDA's: backends/cuda/tests/failing.
#include "warm.hpp"

#include <gtest/gtest.h>

#include "hold.hpp"
#include "inject/allocations.hpp"
#include "inject/system_calls.hpp"
#include "loop.hpp"

namespace weir::test {
namespace {

class Warm : public testing::TestWithParam<WarmPath> {
 protected:
  /// Run the path with nothing to be had, on streams without work and behind work that is held back.
  void run_refused(Injector& injector) {
    WarmPool warm(make_resource(host_device()), false);
    for (const bool busy : {false, true}) {
      SCOPED_TRACE(busy ? "behind pending work" : "without work");
      Hold hold;
      Buffer used = warm.pool->allocate(1000, warm.stream);
      warm_up(warm, GetParam());
      if (busy) {
        for (Stream* stream : {&warm.stream, &warm.other}) stream->wait(hold.event());
        used.fill(std::byte{1}, warm.stream);
      }
      settle_core(host_device());
      injector.arm(1, 0);
      GetParam().run(warm);
      const auto refused = injector.disarm();
      EXPECT_FALSE(refused.has_value()) << refused->call;
      hold.open();
      for (Stream* stream : {&warm.stream, &warm.other}) stream->synchronize();
    }
    injector.arm(1, 0);
    (void)allocated(warm, std::size_t{100} << 20);
    EXPECT_TRUE(injector.disarm().has_value()) << "growth asks, so that the above proves something";
    warm.other.synchronize();
  }

 private:
  static bool allocated(WarmPool& warm, std::size_t bytes) try {
    return warm.pool->try_allocate(bytes, warm.stream).has_value();
  } catch (const std::exception&) {
    return false;
  }
};

TEST_P(Warm, NeedsNoMemory) {
  FailingAllocations injector(host_device());
  run_refused(injector);
}

TEST_P(Warm, MakesNoSystemCall) {
  FailingSystemCalls injector(host_device());
  run_refused(injector);
}

INSTANTIATE_TEST_SUITE_P(Every, Warm, testing::ValuesIn(warm_paths()), WarmPathName());

}  // namespace
}  // namespace weir::test
