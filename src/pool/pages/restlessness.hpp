// SPDX-License-Identifier: Apache-2.0
#pragma once
// When a paged pool takes new memory although it could move idle pages.

#include <algorithm>
#include <cstdint>
#include <utility>

namespace weir::pool {

/// A program whose sizes never repeat has pages moved for nearly every request, and never comes to an end: memory that
/// moved for one request seldom lies where the next one needs it. Somewhat more memory ends that. So a pool that has
/// moved half of its pages may grow by an eighth of what is in use instead, time after time, until it has half more
/// than is in use. A program that allocates a lot may move some pages all the time, so moves are set off against
/// searches.
class Restlessness {
 public:
  /// Note that `pages` of the `all` pages were moved. `searches` counts the requests so far that no cache served.
  void moved(std::uint64_t pages, std::uint64_t all, std::uint64_t searches) noexcept {
    moved_ += pages;
    moved_ -= std::min(moved_, (searches - std::exchange(searches_, searches)) / searches_per_page);
    if (moved_ >= std::max(all / 2, fewest)) due_ = true;
  }
  /// Return whether a request for `granules` should get new memory only. The pool holds `held` granules, of which
  /// `in_use` are in buffers.
  [[nodiscard]] bool wants_more(std::uint64_t granules, std::uint64_t held, std::uint64_t in_use) noexcept {
    if (std::exchange(due_, false)) {
      moved_ = 0;
      left_ = in_use / step;
    }
    return granules <= left_ && held + granules <= in_use + in_use / most;
  }
  void grew(std::uint64_t granules) noexcept { left_ -= std::min(left_, granules); }
  /// Note that there was no new memory. Nothing but further moves changes that.
  void failed() noexcept { left_ = 0; }

 private:
  static constexpr std::uint64_t step = 8, most = 2;  // divisors of what is in use
  static constexpr std::uint64_t searches_per_page = 16, fewest = 64;

  std::uint64_t moved_ = 0, searches_ = 0;
  std::uint64_t left_ = 0;  // granules that may still be taken
  bool due_ = false;
};

}  // namespace weir::pool
