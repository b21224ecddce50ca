// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plays programs in other processes, so that a crash or a hang is one failed program and no more.

#include <chrono>
#include <optional>
#include <string>

#include "program.hpp"
#include "spawn.hpp"

namespace weir::test::random {

class Runner {
 public:
  /// A line that takes longer than `limit` is a failure.
  explicit Runner(std::chrono::seconds limit) : limit_(limit) {}

  /// What went wrong, or empty. The process stays for the next program, unless this one failed.
  [[nodiscard]] std::string play(const Program& program);

 private:
  std::chrono::seconds limit_;
  std::optional<Child> child_;
};

}  // namespace weir::test::random
