// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a whole run was: how many cases, and what was excluded from them and why. Printed at the end of every test
// program, and left in its XML for tests/run/report.py: "excluded" has a line for each distinct
// reason, with the number of cases that it leaves out.

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>

namespace weir::test {

class Summary : public testing::Environment {
 public:
  void TearDown() override;

 private:
  void collect();

  struct Group {
    std::size_t cases = 0;
    std::string why;       ///< "permanent: reason"
    std::string memories;  ///< for suites crossed with a Subset: " (…)"
  };
  std::map<std::string, Group> excluded_;  // by suite and reason
};

}  // namespace weir::test
