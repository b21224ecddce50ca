// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects with a thread, or with a lock that a thread of weir has while it works.

#include <utility>

#include "bind.hpp"

namespace weir::python {

/// A `T` that ends without the GIL. Its end waits for a thread, and that one may be about to take a lock of Python
/// around a queue of Vulkan.
template <class T>
class EndsWithoutGil : public T {
 public:
  using T::T;
  EndsWithoutGil(T&& object) noexcept : T(std::move(object)) {}  // NOLINT(google-explicit-constructor)
  EndsWithoutGil(EndsWithoutGil&&) noexcept = default;
  EndsWithoutGil& operator=(EndsWithoutGil&&) = delete;
  ~EndsWithoutGil() {
    without_gil([this] { const T last(std::move(static_cast<T&>(*this))); });
  }
};

}  // namespace weir::python
