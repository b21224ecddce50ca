// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expecting errors: the condition and what the message names.

#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "weir/error.hpp"

namespace weir::test {

/// Whether `function` throws weir::Error of `condition` whose message contains `text`.
testing::AssertionResult fails_with(const std::function<void()>& function, Errc condition, std::string_view text);
/// Whether `function` throws weir::OutOfMemory whose message contains `text`.
testing::AssertionResult runs_out_of_memory(const std::function<void()>& function, std::string_view text);

}  // namespace weir::test

/// Put the expression in parentheses when it has commas outside of a call.
#define EXPECT_ERROR(expression, condition, text) \
  EXPECT_TRUE(::weir::test::fails_with([&] { static_cast<void>(expression); }, condition, text)) << #expression
#define EXPECT_OUT_OF_MEMORY(expression, text) \
  EXPECT_TRUE(::weir::test::runs_out_of_memory([&] { static_cast<void>(expression); }, text)) << #expression
#define ASSERT_ERROR(expression, condition, text) \
  ASSERT_TRUE(::weir::test::fails_with([&] { static_cast<void>(expression); }, condition, text)) << #expression
