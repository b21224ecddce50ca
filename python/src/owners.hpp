// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python objects that own memory weir uses. weir drops them on any thread, with or without the GIL, also after the
// interpreter has ended: then they are left alone.

#include <functional>

#include "bind.hpp"

namespace weir::python {

/// One reference to a Python object, to be dropped exactly once, anywhere.
class Owner {
 public:
  explicit Owner(nb::handle object);  ///< takes a new reference; needs the GIL
  void drop() noexcept;               ///< at once with the GIL, else soon, on the main thread
  [[nodiscard]] std::function<void()> dropper() const {
    return [owner = *this]() mutable { owner.drop(); };
  }
  /// Drop what was released on threads without the GIL. Needs the GIL.
  static void drop_released() noexcept;

 private:
  struct Node;
  Node* node_;
};

}  // namespace weir::python
