// SPDX-License-Identifier: Apache-2.0
#pragma once
// The result of a replay, in words, as JSON, and as a page with pictures.

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
/// Return a page that needs no other file.
[[nodiscard]] std::string page_of(const Replay& replay, const Profile& profile);

/// Return text such as "34 ns", "1.2 µs" or "5.61 ms".
[[nodiscard]] std::string short_time(std::uint64_t nanoseconds);
/// Return text such as "28 363".
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace weir::replay
