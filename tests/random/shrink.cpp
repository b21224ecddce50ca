// SPDX-License-Identifier: Apache-2.0
#include "shrink.hpp"

#include <algorithm>

#include "model.hpp"

namespace weir::test::random {

Program defined_part(const Program& program) {
  Program defined;
  Model model;
  for (const Op& op : program) {
    try {
      model.apply(op);
      defined.push_back(op);
    } catch (const Undefined&) {  // it needed what is gone
    }
  }
  return defined;
}

Program shrink(Program program, const std::function<bool(const Program&)>& fails,
               const ShrinkLimits& limits) {
  const auto end = std::chrono::steady_clock::now() + limits.time;
  std::size_t attempts = 0;
  const auto spent = [&] { return attempts >= limits.attempts || std::chrono::steady_clock::now() >= end; };
  for (std::size_t size = std::max<std::size_t>(1, program.size() / 2); size > 0;) {
    bool shorter = false;
    // From the end: steps there depend on those in front.
    for (std::size_t stop = program.size(); stop > 0 && !spent();) {
      const std::size_t start = stop > size ? stop - size : 0;
      Program candidate(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(start));
      candidate.insert(candidate.end(), program.begin() + static_cast<std::ptrdiff_t>(stop), program.end());
      candidate = defined_part(candidate);
      ++attempts;
      if (!candidate.empty() && candidate.size() < program.size() && fails(candidate)) {
        program = std::move(candidate);
        shorter = true;
      }
      stop = std::min(start, program.size());
    }
    if (spent()) break;
    if (!shorter || size > program.size()) {
      if (size == 1 && !shorter) break;
      size = std::max<std::size_t>(1, size / 2);
    }
  }
  return program;
}

}  // namespace weir::test::random
