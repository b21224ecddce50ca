// SPDX-License-Identifier: Apache-2.0
// main() of the explorer's tests. Not that of the other suites, which links the library: here its protocols run on
// instrumented primitives, and a second copy of them must not come in.

#include <gtest/gtest.h>

#include <string>

#include "sanitizers.hpp"
#include "time_limits.hpp"
#include "watchdog.hpp"

namespace {

class Observer : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& info) override {
    watchdog_.watch(std::string(info.test_suite_name()) + '.' + info.name());
  }
  void OnTestEnd(const testing::TestInfo&) override { watchdog_.watch({}); }

 private:
  weir::test::Watchdog watchdog_{weir::test::test_limit()};
};

#if defined(WEIR_EXPLORE_TSAN)
TEST(Explorer, UnderTheThreadSanitizer) {
  GTEST_SKIP()
      << "the explorer runs all threads on one thread of the system, where the thread sanitizer has nothing to "
         "see and takes the fibers' stacks for damage";
}
#endif

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#if defined(WEIR_EXPLORE_TSAN)
  testing::GTEST_FLAG(filter) = "Explorer.UnderTheThreadSanitizer";
#endif
  testing::UnitTest::GetInstance()->listeners().Append(new Observer);
  return RUN_ALL_TESTS();
}
