// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python objects that own memory that weir uses. weir drops them on any thread, with or without the GIL. After the
// interpreter has ended they are left alone.

#include <functional>

#include "bind.hpp"

namespace weir::python {

/// One reference to a Python object, to be dropped exactly once, on any thread.
class Owner {
 public:
  explicit Owner(nb::handle object);  ///< takes a new reference; needs the GIL
  void drop() noexcept;               ///< at once with the GIL, otherwise soon, on a thread that has it
  [[nodiscard]] std::function<void()> dropper() const {
    return [owner = *this]() mutable { owner.drop(); };
  }
  /// Drop the references that threads without the GIL gave up. Needs the GIL.
  static void drop_released() noexcept;

 private:
  struct Node;
  Node* node_;
};

}  // namespace weir::python
