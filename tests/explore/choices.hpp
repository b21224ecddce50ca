// SPDX-License-Identifier: Apache-2.0
#pragma once
// The search, depth first: which of several ways each run took, and which one the next run takes.

#include <cstdint>

#include "visited.hpp"

namespace weir::explore {

class Choices {
 public:
  /// With `merge`, a run goes on without choices once it reaches a state from which everything was tried.
  explicit Choices(bool merge) noexcept : merge_(merge) {}

  /// Begin a run, which takes the recorded ways first. With `again`, it then takes the first way everywhere, as the run
  /// did of which they are.
  void begin(bool again = false) noexcept {
    position_ = 0;
    settled_ = false;
    again_ = again;
  }
  /// Which of `count` ways to take in `state`. Returns `count` when the recorded run was in another state here.
  unsigned pick(unsigned count, std::uint64_t state) {
    if (count == 1 || settled_) return 0;
    if (position_ < taken_.size()) return follow(count, state);
    return record(count, state);
  }
  /// The same where `state` tells everything that matters for what follows, and `left` preemptions are left.
  unsigned pick(unsigned count, std::uint64_t state, unsigned left) {
    if (count == 1 || settled_) return 0;
    if (position_ < taken_.size()) return follow(count, state);
    if (merge_ && !again_ && visited_.insert(state, left)) {
      settled_ = true;
      return 0;
    }
    return record(count, state);
  }
  /// Set up the next run. False when every way was taken.
  bool advance() noexcept {
    while (!taken_.empty() && taken_.back().way + 1U == taken_.back().count) taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().way;
    return true;
  }
  /// Whether a run that is over took every recorded way.
  [[nodiscard]] bool followed() const noexcept { return position_ == taken_.size(); }
  [[nodiscard]] bool is_settled() const noexcept { return settled_; }
  [[nodiscard]] std::size_t states() const noexcept { return visited_.size(); }

 private:
  struct Taken {
    std::uint8_t way, count;
    std::uint32_t state;  // some bits of it
  };

  unsigned follow(unsigned count, std::uint64_t state) noexcept {
    const Taken taken = taken_[position_++];
    return taken.count == count && taken.state == static_cast<std::uint32_t>(state) ? taken.way : count;
  }
  unsigned record(unsigned count, std::uint64_t state) {
    if (again_) return 0;
    taken_.push_back({0, static_cast<std::uint8_t>(count), static_cast<std::uint32_t>(state)});
    ++position_;
    return 0;
  }

  const bool merge_;
  bool settled_ = false;
  bool again_ = false;
  std::size_t position_ = 0;
  List<Taken> taken_;
  Visited visited_;
};

}  // namespace weir::explore
