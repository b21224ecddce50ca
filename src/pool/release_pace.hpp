// SPDX-License-Identifier: Apache-2.0
#pragma once
// How often a pool gives memory back while some streams still have buffers: the more rarely, the more often it had to
// grow again afterwards.

#include <algorithm>
#include <cstdint>

namespace weir::pool {

class ReleasePace {
 public:
  /// Note that memory was given back, at once or later on the library's thread.
  void gave_back() noexcept { gave_back_ = true; }

  /// Note that the pool took memory from upstream.
  void grew() noexcept { grew_again_ = gave_back_; }

  /// Return whether to take this chance to give memory back.
  [[nodiscard]] bool takes() noexcept {
    if (++chances_ < next_) return false;
    if (gave_back_) pause_ = grew_again_ ? std::min(2 * pause_, rarest) : std::max(pause_ / 2, std::uint64_t{1});
    gave_back_ = grew_again_ = false;
    next_ = chances_ + pause_;
    return true;
  }

 private:
  static constexpr std::uint64_t rarest = 1 << 16;

  std::uint64_t chances_ = 0;  // so far
  std::uint64_t next_ = 0;     // number of the next chance to take
  std::uint64_t pause_ = 1;    // chances from one that is taken to the next
  bool gave_back_ = false;     // since a chance was taken
  bool grew_again_ = false;    // after that
};

}  // namespace weir::pool
