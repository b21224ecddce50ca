// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the lane of a stream.

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/biased_lock.hpp"
#include "lane.hpp"

namespace weir::cuda {

/// Holds a lane for a call, or for live memory.
class HeldLane {
 public:
  HeldLane() noexcept = default;
  /// Take over a count of `holders` that the caller has added.
  static HeldLane adopt(Lane* lane) noexcept {
    HeldLane held;
    held.lane_ = lane;
    return held;
  }
  HeldLane(HeldLane&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
  HeldLane& operator=(HeldLane&& other) noexcept {
    std::swap(lane_, other.lane_);
    return *this;
  }
  ~HeldLane() {
    if (lane_) lane_->holders.fetch_sub(1, std::memory_order_release);
  }
  [[nodiscard]] Lane* get() const noexcept { return lane_; }
  Lane* operator->() const noexcept { return lane_; }
  Lane& operator*() const noexcept { return *lane_; }
  explicit operator bool() const noexcept { return lane_ != nullptr; }
  /// Give the count to the caller.
  [[nodiscard]] Lane* detach() noexcept { return std::exchange(lane_, nullptr); }

 private:
  Lane* lane_ = nullptr;
};

/// The lanes of an allocator, spread over 64 locks. Of streams that have nothing live, about 4 096 lanes are kept. When
/// there are more, those that were not used lately end: a stream that the application goes on to use gets a new one.
class LaneTable {
 public:
  /// Return the lane of that stream; none if there is none.
  [[nodiscard]] HeldLane find(const StreamKey& key) noexcept;
  /// Add a lane, and return the one that its stream has now: another thread may have been faster. Other lanes end in
  /// this call if there are too many.
  [[nodiscard]] HeldLane add(std::unique_ptr<Lane> made);
  /// Return how many lanes there are.
  [[nodiscard]] std::size_t size() noexcept;
  /// Call `function` for each lane. No other thread uses the table meanwhile.
  void for_each(const std::function<void(Lane&)>& function);

 private:
  struct Hash {
    std::size_t operator()(const StreamKey& key) const noexcept {
      return (key.id ^ reinterpret_cast<std::uintptr_t>(key.context)) * 0x9e3779b97f4a7c15U;
    }
  };
  struct alignas(64) Stripe {
    weir::detail::BiasedLock lock;
    std::unordered_map<StreamKey, std::unique_ptr<Lane>, Hash> lanes;
    std::size_t sweep_at = most_idle;  // with this many lanes, those that nobody needs end
  };
  static constexpr std::size_t most_idle = 64;  // of one stripe

  Stripe& of(const StreamKey& key) noexcept { return stripes_.at(Hash{}(key) >> 58U); }
  static std::vector<std::unique_ptr<Lane>> sweep(Stripe& stripe);
  void put_back(std::unique_ptr<Lane> lane) noexcept;

  std::array<Stripe, 64> stripes_;
};

}  // namespace weir::cuda
