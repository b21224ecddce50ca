// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes a failing program short.

#include <chrono>
#include <functional>

#include "program.hpp"

namespace weir::test::random {

/// `program` without the steps that the model refuses, which is what is left of it after some were taken out.
[[nodiscard]] Program defined_part(const Program& program);

/// What bounds the search for a shorter program.
struct ShrinkLimits {
  std::size_t attempts = 400;
  std::chrono::milliseconds time = std::chrono::seconds{10};
};

/// Delta debugging: take out ever smaller runs of steps as long as `fails` still says yes. The result fails,
/// unless nothing could be taken out.
[[nodiscard]] Program shrink(Program program, const std::function<bool(const Program&)>& fails,
                             const ShrinkLimits& limits = {});

}  // namespace weir::test::random
