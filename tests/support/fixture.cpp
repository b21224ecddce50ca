// SPDX-License-Identifier: Apache-2.0
#include "fixture.hpp"

#include <cstdio>
#include <string>

namespace weir::test {

const Exclusion* Excludable::exclusion() const {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  return excluded(std::string(info->test_suite_name()) + '.' + info->name());
}

void Excludable::SetUp() {
  if (exclusion()) {
    interception_.emplace(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results_);
  }
}

void Excludable::TearDown() {
  const Exclusion* line = exclusion();
  if (!line) return;
  interception_.reset();
  bool failed = false;
  for (int i = 0; i < results_.size(); ++i) failed = failed || results_.GetTestPartResult(i).failed();
  if (!failed) FAIL() << "passes although exclusions.cpp says \"" << line->reason << "\": remove that line";
  GTEST_SKIP() << why(line->lasting, line->reason);
}

void OnMemory::TearDown() {
  Excludable::TearDown();
  if (!HasFailure() || !GetParam().stack) return;
  std::printf("%s is %s, of WEIR_STACK_SEED=%llu\n", GetParam().name().c_str(), GetParam().make()->name().c_str(),
              static_cast<unsigned long long>(stack_seed()));
}

}  // namespace weir::test
