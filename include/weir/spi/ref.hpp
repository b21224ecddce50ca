// SPDX-License-Identifier: Apache-2.0
#pragma once
// Intrusive reference, for objects that count their owners themselves.

#include <utility>

#include "weir/export.hpp"
#include "weir/fwd.hpp"

namespace weir::spi {

// These are functions so that a Ref works on an incomplete type.

/// Add a use that names the stream.
WEIR_API void ref_retain(StreamState* object) noexcept;
/// Drop a use that names the stream. Dropping the last one forgets the timeline.
WEIR_API void ref_release(StreamState* object) noexcept;
/// Add an owner.
WEIR_API void ref_retain(Segment* object) noexcept;
/// Drop an owner. Dropping the last one destroys the segment.
WEIR_API void ref_release(Segment* object) noexcept;

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
  /// Add a count.
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_) ref_retain(object_);
  }
  /// Take over the count of `other`.
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// Drop this count, and hold that of `other`.
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) ref_release(object_);
  }

  [[nodiscard]] T* get() const noexcept { return object_; }               ///< null when there is none
  T& operator*() const noexcept { return *object_; }                      ///< must not be null
  T* operator->() const noexcept { return object_; }                      ///< must not be null
  explicit operator bool() const noexcept { return object_ != nullptr; }  ///< whether there is one
  /// Give the count to the caller.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

}  // namespace weir::spi
