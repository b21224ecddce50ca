// SPDX-License-Identifier: Apache-2.0
// The plan of a copy as a table: no GPU needed.

#include <gtest/gtest.h>

#include <vector>

#include "copy/plan.hpp"

namespace weir::test {
namespace {

using detail::CopyEnd;
using detail::CopyPath;
using detail::CopyStep;

// Who reaches an end: nobody, the host, the stream, both.
constexpr CopyEnd n{false, false}, h{false, true}, s{true, false}, b{true, true};

struct Row {
  CopyEnd source, destination;
  CopyPath path;
  std::vector<CopyStep> steps;
  bool read_on_stream, write_on_stream;
};

TEST(CopyPlan, Table) {
  using enum CopyPath;
  using enum CopyStep;
  const Row rows[] = {
      {s, s, direct, {copy}, false, false},
      {s, b, direct, {copy}, false, false},
      {b, s, direct, {copy}, false, false},
      {b, b, direct, {copy}, false, false},
      {h, h, host, {move}, false, false},
      {h, b, host, {move}, false, false},
      {b, h, host, {move}, false, false},
      {s, h, staged, {read, move}, true, false},
      {h, s, staged, {move, write}, false, true},
      {n, h, staged, {read, move}, false, false},
      {n, b, staged, {read, move}, false, false},
      {h, n, staged, {move, write}, false, false},
      {b, n, staged, {move, write}, false, false},
      {s, n, staged, {read, move, write}, true, false},
      {n, s, staged, {read, move, write}, false, true},
      {n, n, staged, {read, move, write}, false, false},
  };
  EXPECT_EQ(std::size(rows), 16U) << "every combination once";
  for (const Row& row : rows) {
    const auto plan = plan_copy(row.source, row.destination);
    SCOPED_TRACE(testing::Message() << "row " << &row - rows);
    EXPECT_EQ(plan.path, row.path);
    EXPECT_EQ(std::vector<CopyStep>(plan.view().begin(), plan.view().end()), row.steps);
    EXPECT_EQ(plan.read_on_stream, row.read_on_stream);
    EXPECT_EQ(plan.write_on_stream, row.write_on_stream);
  }
}

TEST(CopyPlan, ADeviceThatReachesBothEndsCopiesWhereTheStreamCannot) {
  for (const CopyEnd source : {n, h, s, b}) {
    for (const CopyEnd destination : {n, h, s, b}) {
      const auto without = plan_copy(source, destination), with = plan_copy(source, destination, true);
      if (without.path != CopyPath::staged) {
        EXPECT_EQ(with, without);
        continue;
      }
      EXPECT_EQ(with.path, CopyPath::elsewhere);
      EXPECT_EQ(std::vector<CopyStep>(with.view().begin(), with.view().end()), std::vector{CopyStep::copy});
    }
  }
}

TEST(CopyPlan, IsAValue) {
  EXPECT_EQ(plan_copy(h, s), plan_copy(h, s));
  EXPECT_NE(plan_copy(h, s), plan_copy(s, h));
}

}  // namespace
}  // namespace weir::test
