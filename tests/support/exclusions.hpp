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

/// What would have to change for the excluded tests to run.
enum class Lasting {
  permanent,     ///< nothing: the memory itself cannot, whatever weir does
  not_built,     ///< weir: the memory could, but weir does not do it yet
  this_machine,  ///< the machine: what its driver lacks, or what this run has switched off
};

/// Why one memory is left out of a suite.
struct Lack {
  Lasting lasting;
  std::string_view reason;
};

struct Exclusion {
  std::string_view pattern;  ///< of "Suite.Test/param", with * and ?
  Lasting lasting;
  std::string_view reason;
};

/// Vulkan memory has addresses where its device has bufferDeviceAddress, and DLPack a name for Vulkan's devices.
inline constexpr Lack no_vulkan_addresses{Lasting::not_built,
                                          "addresses of Vulkan memory are neither taken from others nor given to them"};

/// The line that covers the test, or null.
const Exclusion* excluded(std::string_view test);

bool matches(std::string_view pattern, std::string_view text);

/// "permanent: reason", "not built: reason" or "this machine: reason".
std::string why(Lasting lasting, std::string_view reason);

/// Whether `text` is what `why` makes.
bool says_why(std::string_view text);

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
