// SPDX-License-Identifier: Apache-2.0
#pragma once
// What programs do with weir, in small: the list that is run with every call of every driver failing once. Public API
// only, deterministic, and quick, since each of them runs thousands of times. Then loop.hpp.

#include <optional>
#include <span>

#include "exclusions.hpp"
#include "weir/memory_resource.hpp"

namespace weir::test {

/// A device and resources of it that exist before anything fails, so that what is left in them can be counted.
struct Stage {
  explicit Stage(const Device& device);

  Device device;
  ResourcePtr plain;      ///< of the default kind
  ResourcePtr readable;   ///< host-accessible, and the device copies to and from it
  ResourcePtr shareable;  ///< exportable; null when the device has none
};

/// Runs on its own streams, closes everything whether it throws or not, and throws WrongResult for wrong bytes.
struct Scenario {
  const char* name;
  void (*run)(const Stage& stage);
  /// Why it cannot run there, if it cannot. Null: it runs everywhere.
  std::optional<Lack> (*lacks)(const Stage& stage) = nullptr;

  [[nodiscard]] std::optional<Lack> lack(const Stage& stage) const { return lacks ? lacks(stage) : std::nullopt; }
};

/// The core list. Backends add their own.
std::span<const Scenario> scenarios();

/// Return whether all bytes of the buffer are `value`, once the stream's work on it is complete.
bool lands(const Buffer& buffer, const Stream& stream, unsigned char value);
/// Why nothing of the stage can go to another process.
std::optional<Lack> shares_nothing(const Stage& stage);

/// What a scenario throws when weir did not do what it said. Needs no memory.
struct WrongResult {
  const char* what;
};
inline void require(bool holds, const char* what) {
  if (!holds) throw WrongResult{what};
}

}  // namespace weir::test
