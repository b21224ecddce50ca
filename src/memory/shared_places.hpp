// SPDX-License-Identifier: Apache-2.0
#pragma once
// What other processes were given of a paged segment: single pages, and runs of them, by place and by identity.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

/// Places are in bytes from the beginning of the paged segment. An identity is a SegmentId::low. A look takes
/// logarithmic time. Forgetting a run also looks at those that begin shortly before it. Not thread-safe. Functions throw
/// only for want of memory, and then change nothing.
class SharedPlaces {
 public:
  /// A process opens a run once while it is kept here. So a ring can have this many frames without opening one twice.
  static constexpr std::size_t most_runs = 4096;

  /// Return whether this process has ever remembered anything, in any such object; costs one load.
  [[nodiscard]] static bool any() noexcept { return any_.load(std::memory_order_relaxed); }

  /// Remember the page from `begin` to `end`.
  void add_page(std::uint64_t id, std::size_t begin, std::size_t end);

  /// Return the run that begins and ends there, or none.
  [[nodiscard]] spi::Ref<spi::Segment> find_run(std::size_t begin, std::size_t end) const;
  /// Remember a run that is not known yet. Return the oldest, to be forgotten, if there are too many.
  [[nodiscard]] spi::Ref<spi::Segment> add_run(std::uint64_t id, std::size_t begin, std::size_t end,
                                               spi::Ref<spi::Segment> segment);

  /// Forget the page that `offset` is in.
  void forget_page(std::size_t offset) noexcept;
  /// Forget one run that `offset` is in and return it, or none if no run is left there.
  [[nodiscard]] spi::Ref<spi::Segment> forget_run(std::size_t offset) noexcept;

  /// Return where the page or the run begins, if it is known.
  [[nodiscard]] std::optional<std::size_t> find(std::uint64_t id) const noexcept;

 private:
  static inline std::atomic<bool> any_{false};
  struct Run {
    std::uint64_t id;
    std::size_t begin, end;
    spi::Ref<spi::Segment> segment;
  };
  struct Page {
    std::uint64_t id;
    std::size_t end;
  };
  using Runs = std::list<Run>;
  [[nodiscard]] spi::Ref<spi::Segment> drop(Runs::iterator run) noexcept;

  Runs runs_;  // the oldest first
  std::map<std::pair<std::size_t, std::size_t>, Runs::iterator> places_;
  std::map<std::size_t, Page> pages_;  // by their beginning
  std::unordered_map<std::uint64_t, std::size_t> begins_;
  std::size_t longest_ = 0;  // of a run that was ever added
};

}  // namespace weir::detail
