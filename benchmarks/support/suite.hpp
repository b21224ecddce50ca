// SPDX-License-Identifier: Apache-2.0
#pragma once
// A program's rows for one backend. One object of it at namespace scope; main() adds the rows of what the
// machine has.

#include <string_view>

#include "weir/weir.hpp"

namespace weir::bench {

class Suite {
 public:
  using Add = void (*)(const Device&);
  /// `add` is called with the backend's first device, if there is one. "" means every backend.
  Suite(std::string_view backend, Add add) noexcept;
  Suite(const Suite&) = delete;
  Suite& operator=(const Suite&) = delete;

  /// Call those that are for this device's backend.
  static void add_all(const Device& device);

 private:
  std::string_view backend_;
  Add add_;
  const Suite* next_;
};

}  // namespace weir::bench
