// SPDX-License-Identifier: Apache-2.0
#pragma once
// One fuzz target: a function of bytes that returns, or throws Violation. The same object file is linked into a
// libFuzzer program (entry.cpp) and into the everyday suite that replays the corpora (replay_test.cpp).

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weir::fuzz {

/// The library did with hostile bytes what it must never do.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throw Violation(what) unless `holds`.
inline void require(bool holds, std::string_view what) {
  if (!holds) throw Violation(std::string(what));
}

struct Target {
  std::string name;  ///< also of its folder in corpus/
  void (*run)(std::span<const std::byte> bytes);
};

/// Those linked into this program.
std::vector<Target>& targets();

/// Put a namespace-scope object of it into each target's source.
struct Register {
  Register(std::string name, void (*run)(std::span<const std::byte>));
};

/// Run once; beforehand nothing is reported to the failure sink, afterwards nothing that the target did not take, and
/// the same file descriptors are open.
void run(const Target& target, std::span<const std::byte> bytes);

}  // namespace weir::fuzz
