// SPDX-License-Identifier: Apache-2.0
#pragma once
// Something between weir and what it stands on that counts the calls which can fail, and lets one of them fail.

#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace weir::test {

/// A call that was made to fail.
struct Injected {
  std::string call;        ///< its name
  std::string code;        ///< what it returned
  std::size_t codes = 1;   ///< how many there are to try for this call
  std::string names = {};  ///< what the error must name, if not the call; alternatives stand between bars
};

class Injector {
 public:
  virtual ~Injector() = default;

  /// Count from now on, from any thread, and fail the `nth` call (from 1) with its `code` (from 0, modulo how many it
  /// has). 0: count, and fail none.
  virtual void arm(std::size_t nth, std::size_t code) = 0;
  /// Fail nothing from now on. The call that failed; nothing when fewer were made.
  virtual std::optional<Injected> disarm() = 0;

  /// Return when other threads have ended what they do for weir, with all caches empty.
  virtual void settle() = 0;
  /// How many objects of each sort the driver holds for weir.
  virtual std::map<std::string, long> alive() = 0;

  /// Why weir may go on as if nothing had happened when that call fails; null when it must tell.
  virtual const char* harmless(const Injected& /*call*/) { return nullptr; }
  /// Why weir may leave something behind when that call fails, provided that it reports a leak; null when it must not.
  virtual const char* leaks(const Injected& /*call*/) { return nullptr; }
  /// Why the device may be lost for good after that call failed; null when that is a failure. If not null, the injector
  /// has made a state in which the next scenario can run, and `alive` counts that.
  virtual const char* renewed_after(const Injected& /*call*/) { return nullptr; }
};

}  // namespace weir::test
