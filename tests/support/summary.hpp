// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a whole run was: how many cases, and what was excluded from them and why. Printed at the end of every test
// program, and left in its XML as the property "exclusions" for tests/run/report.py.

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
    std::string of;  ///< suite and memories, for suites crossed with a Subset
  };
  std::map<std::string, Group> excluded_;  // "Suite: permanent: reason"
};

}  // namespace weir::test
