// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is searched, and what can be found.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::explore {

enum class Fault : std::uint8_t {
  none,
  check,       ///< `require` of something false; two threads in one Section; a mutex unlocked by a stranger
  race,        ///< accesses to a Plain that nothing orders
  lifetime,    ///< an access to something destroyed, or a destruction that nothing orders after an access
  deadlock,    ///< all threads wait
  endless,     ///< a run takes more steps than it may
  exception,   ///< a thread let an exception escape
  leak,        ///< a run left memory behind
  unstable,    ///< the same choices led elsewhere: the program depends on something that the explorer does not control
  unfinished,  ///< more runs than allowed would be needed
};

[[nodiscard]] std::string_view to_string(Fault fault) noexcept;

inline constexpr unsigned most_preemptions = 14;

struct Options {
  /// Of one run: threads that are stopped although they could go on, pauses that end while others could go on, loads of
  /// old values, and weak compare-exchanges that fail for no reason. At most most_preemptions.
  unsigned preemptions = 3;
  bool heavy_barrier = true;        ///< false: has_heavy_barrier() says so, and heavy_barrier() does nothing
  bool store_buffers = true;        ///< false: every store is visible at once
  unsigned old_reads = 1;           ///< loads of one run that see an older value than memory has, where C++ lets them
  unsigned weak_failures = 1;       ///< weak compare-exchanges of one run that fail for no reason
  bool leaks = true;                ///< memory that a run leaves is a fault
  std::size_t steps = 2000;         ///< of one run
  std::uint64_t runs = 20'000'000;  ///< of the whole search
  bool merge = true;  ///< go on only once from states that differ in nothing but the order of independent steps
};

}  // namespace weir::explore
