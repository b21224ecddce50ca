// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the explorer knows about one instrumented object. It stands inside the object, so that it is found without a
// search and is fresh with each object.

#include <cstdint>
#include <string>

#include "clock.hpp"

namespace weir::explore {

/// Where an operation stands in the source.
struct Where {
  const char* file = nullptr;
  unsigned line = 0;
  static constexpr Where here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

class Location {
 public:
  constexpr Location() noexcept = default;
  Location(const Location&) = delete;
  Location& operator=(const Location&) = delete;
  ~Location();

  /// False once the object is destroyed, as long as its memory is not used again.
  [[nodiscard]] bool is_alive() const noexcept;
  void die() noexcept;
  /// Its name or number, also of one that is destroyed.
  [[nodiscard]] std::string text() const;

  const char* name = nullptr;  ///< for traces

  // Of the run that `run` names. All of another run is forgotten when the object is touched.
  std::uint32_t run = 0;
  std::uint32_t id = 0;
  std::uint64_t written = 0;  ///< hash of the last write, and of all that it depends on
  Clock released;             ///< what happens before an acquire that reads the value
  Clock accessed;             ///< time of each thread's last access
  Clock wrote;                ///< and of its last write, of plain data only

 private:
  static constexpr std::uint32_t alive = 0x5a11ba5e, dead = 0xdeadbea7;
  std::uint32_t mark_ = alive;
};

}  // namespace weir::explore
