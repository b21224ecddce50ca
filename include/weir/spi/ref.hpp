// SPDX-License-Identifier: Apache-2.0
#pragma once
// Intrusive reference, for objects that count their owners themselves.

#include <utility>

#include "weir/fwd.hpp"

namespace weir::spi {

// Add and drop a count. Dropping the last one destroys a Segment, and forgets a StreamState. These are functions so
// that a Ref works on an incomplete type.
void ref_retain(StreamState* object) noexcept;
void ref_release(StreamState* object) noexcept;
void ref_retain(Segment* object) noexcept;
void ref_release(Segment* object) noexcept;

/// Owner of one count of a T.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  /// Take over a count that the caller already holds.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Add a count.
  static Ref retain(T* object) noexcept {
    if (object) ref_retain(object);
    return adopt(object);
  }
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_) ref_retain(object_);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) ref_release(object_);
  }

  [[nodiscard]] T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// Give the count to the caller.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

}  // namespace weir::spi
