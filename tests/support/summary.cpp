// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exclusions.hpp"

namespace weir::test {
namespace {

template <class Function>
void for_each_suite(Function function) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) function(*all.GetTestSuite(i));
}

/// Whether an instantiation of `suite` took part in this run, which may be filtered.
bool ran(const std::string& suite) {
  bool found = false;
  for_each_suite([&](const testing::TestSuite& made) {
    const std::string_view name = made.name();
    found = found || (made.test_to_run_count() > 0 && name.substr(name.rfind('/') + 1) == suite);
  });
  return found;
}

/// The reason of an exclusion that made `test` a skip; empty for every other test. Newer GoogleTests end it with a new
/// line.
std::string_view reason_of(const testing::TestInfo& test) {
  const testing::TestResult& result = *test.result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    const std::string_view message = part.message();
    if (part.skipped() && says_why(message)) return message.substr(0, message.find_last_not_of('\n') + 1);
  }
  return {};
}

std::string list(const std::vector<std::string>& memories) {
  std::string text;
  for (const std::string& memory : memories) text += (text.empty() ? "" : ", ") + memory;
  return text;
}

}  // namespace

void Summary::collect() {
  for (const LeftOut& entry : left_out()) {
    if (!ran(entry.suite)) continue;
    excluded_[entry.suite + ": " + entry.why] = {entry.cases, entry.why, " (" + list(entry.memories) + ")"};
  }
  for_each_suite([this](const testing::TestSuite& suite) {
    for (int i = 0; i < suite.total_test_count(); ++i) {
      const testing::TestInfo& test = *suite.GetTestInfo(i);
      const std::string reason(reason_of(test));
      if (reason.empty()) continue;
      Group& group = excluded_[std::string(suite.name()) + ": " + reason];
      group.why = reason;
      ++group.cases;
    }
  });
}

void Summary::TearDown() {
  collect();
  std::size_t excluded = 0;
  std::map<std::string, std::size_t> reasons;
  for (const auto& [what, group] : excluded_) {
    std::printf("[ EXCLUDED ] %zu of %s%s\n", group.cases, what.c_str(), group.memories.c_str());
    excluded += group.cases;
    reasons[group.why] += group.cases;
  }
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::printf("[ SUMMARY  ] %d cases: %d passed, %d failed, %d skipped; %zu excluded, for %zu reasons\n",
              all.test_to_run_count(), all.successful_test_count(), all.failed_test_count(), all.skipped_test_count(),
              excluded, reasons.size());
  std::fflush(stdout);
  std::string lines;
  for (const auto& [why, cases] : reasons) lines += std::to_string(cases) + " × " + why + '\n';
  if (!lines.empty()) testing::Test::RecordProperty("excluded", lines);
}

}  // namespace weir::test
