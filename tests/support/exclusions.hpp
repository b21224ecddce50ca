// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a memory cannot do although the contract asks for it, with the reason, in two forms. A line of the table covers
// single tests: they still run, their failure shows as a skip with the reason, and their success is a failure, so that
// no line outlives its cause. A suite that is crossed with a Subset (memory.hpp) leaves out whole memories; that they
// refuse clearly is the subject of another suite.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weir::test {

enum class Lasting { permanent, temporary };

struct Exclusion {
  std::string_view pattern;  ///< of "Suite.Test/param", with * and ?
  Lasting lasting;
  std::string_view reason;
};

/// The line that covers the test, or null.
const Exclusion* excluded(std::string_view test);

bool matches(std::string_view pattern, std::string_view text);

/// "permanent: reason".
std::string why(Lasting lasting, std::string_view reason);

/// One test of `suite` was not made for `memory`. `suite` without the prefix of its instantiation.
void note_left_out(std::string_view suite, std::string_view memory, Lasting lasting, std::string_view reason);

/// Everything noted so far for one suite and one reason.
struct LeftOut {
  std::string suite;
  std::string why;
  std::vector<std::string> memories;  ///< each once
  std::size_t cases = 0;
};
const std::vector<LeftOut>& left_out();

}  // namespace weir::test
