// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps a timeline without using it, for code that only wants to know how far the timeline is. The native stream may be
// gone.

#include <utility>

#include "weir/export.hpp"
#include "weir/fwd.hpp"

namespace weir::spi {

/// Add a count that keeps `timeline`.
WEIR_API void keep(StreamState& timeline) noexcept;
/// Drop such a count. Dropping the last one ends the timeline (StreamState::destroy).
WEIR_API void unkeep(StreamState& timeline) noexcept;

/// Owner of one count that keeps a timeline.
class Kept {
 public:
  Kept() noexcept = default;
  /// Add a count.
  explicit Kept(StreamState& timeline) noexcept : timeline_(&timeline) { keep(timeline); }
  /// Take over a count that the caller already holds.
  static Kept adopt(StreamState* timeline) noexcept {
    Kept kept;
    kept.timeline_ = timeline;
    return kept;
  }
  /// Add a count.
  Kept(const Kept& other) noexcept : timeline_(other.timeline_) {
    if (timeline_) keep(*timeline_);
  }
  /// Take over the count of `other`.
  Kept(Kept&& other) noexcept : timeline_(std::exchange(other.timeline_, nullptr)) {}
  /// Drop this count, and hold that of `other`.
  Kept& operator=(Kept other) noexcept {
    std::swap(timeline_, other.timeline_);
    return *this;
  }
  ~Kept() {
    if (timeline_) unkeep(*timeline_);
  }

  [[nodiscard]] StreamState* get() const noexcept { return timeline_; }     ///< null when there is none
  StreamState& operator*() const noexcept { return *timeline_; }            ///< must not be null
  StreamState* operator->() const noexcept { return timeline_; }            ///< must not be null
  explicit operator bool() const noexcept { return timeline_ != nullptr; }  ///< whether there is one
  /// Give the count to the caller.
  [[nodiscard]] StreamState* detach() noexcept { return std::exchange(timeline_, nullptr); }

 private:
  StreamState* timeline_ = nullptr;
};

}  // namespace weir::spi
