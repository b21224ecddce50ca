// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps a timeline without using it, for code that only wants to know how far the timeline is. The native stream may be
// gone.

#include <utility>

#include "weir/fwd.hpp"

namespace weir::spi {

void keep(StreamState& timeline) noexcept;
void unkeep(StreamState& timeline) noexcept;

/// Owner of one count that keeps a timeline.
class Kept {
 public:
  Kept() noexcept = default;
  explicit Kept(StreamState& timeline) noexcept : timeline_(&timeline) { keep(timeline); }
  /// Take over a count that the caller already holds.
  static Kept adopt(StreamState* timeline) noexcept {
    Kept kept;
    kept.timeline_ = timeline;
    return kept;
  }
  Kept(const Kept& other) noexcept : timeline_(other.timeline_) {
    if (timeline_) keep(*timeline_);
  }
  Kept(Kept&& other) noexcept : timeline_(std::exchange(other.timeline_, nullptr)) {}
  Kept& operator=(Kept other) noexcept {
    std::swap(timeline_, other.timeline_);
    return *this;
  }
  ~Kept() {
    if (timeline_) unkeep(*timeline_);
  }

  [[nodiscard]] StreamState* get() const noexcept { return timeline_; }
  StreamState& operator*() const noexcept { return *timeline_; }
  StreamState* operator->() const noexcept { return timeline_; }
  explicit operator bool() const noexcept { return timeline_ != nullptr; }
  /// Give the count to the caller.
  [[nodiscard]] StreamState* detach() noexcept { return std::exchange(timeline_, nullptr); }

 private:
  StreamState* timeline_ = nullptr;
};

}  // namespace weir::spi
