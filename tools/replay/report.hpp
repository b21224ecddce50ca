// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a replay found, in words, as JSON, and as a page with a picture.

#include <cstdint>
#include <string>
#include <vector>

#include "replay/figures.hpp"
#include "replay/player.hpp"
#include "replay/profile.hpp"
#include "replay/trace.hpp"

namespace weir::replay {

struct Replay {
  std::string file;      ///< of the trace
  std::string spec;      ///< as given
  std::string resource;  ///< its name
  std::string device;    ///< id and name
  const Trace* trace = nullptr;
  std::size_t threads = 1;  ///< used
  std::size_t streams = 1;
  std::vector<Pass> passes;  ///< at least one

  [[nodiscard]] std::size_t failures() const noexcept;
};

[[nodiscard]] std::string text_of(const Replay& replay);
[[nodiscard]] std::string json_of(const Replay& replay);
/// A page that needs nothing but itself.
[[nodiscard]] std::string page_of(const Replay& replay, const Profile& profile);

/// "34 ns", "1.2 µs", "5.61 ms".
[[nodiscard]] std::string short_time(std::uint64_t nanoseconds);
/// "28 363".
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace weir::replay
