// SPDX-License-Identifier: Apache-2.0
#pragma once
// Points of several timelines, all of which something waits for.

#include <cstdint>
#include <vector>

#include "weir/fwd.hpp"
#include "weir/spi/kept.hpp"
#include "weir/spi/waiter.hpp"

namespace weir::spi {

/// "Everything on `stream` up to `value`."
struct Point {
  Kept stream;
  std::uint64_t value = 0;
};

/// One point of each of several timelines. They are used while a live buffer is recorded here, and merely kept once
/// that is closed and waits for them, one after another; as a waiter it stands in the queue of the one whose turn it is. Not
/// thread-safe.
class Points : public Waiter {
 public:
  /// Whether the timeline is used for the entry, kept for it, or used by the caller until keep() or clear().
  enum class How : std::uint8_t { use, keep, lend };
  struct Entry {
    StreamState* stream;
    std::uint64_t value;
    How how;
    void* tag = nullptr;  ///< of whoever waits, and keeps the timeline then
  };

  Points() noexcept = default;
  ~Points() { clear(); }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::vector<Entry>& entries() noexcept { return entries_; }
  /// Have room for so many more without asking for memory.
  void reserve(std::size_t more) {
    if (entries_.capacity() - entries_.size() < more) entries_.reserve(2 * entries_.size() + more);
  }
  /// Add a point, leaving room for `spare` more, or raise the one that the timeline has. Only the former may ask for memory.
  void add(StreamState& stream, std::uint64_t value, How how, std::size_t spare = 0);
  [[nodiscard]] std::vector<Point> list() const;
  void clear() noexcept;
  /// From now on keep the timelines instead of using them, but for those with a tag. Some may close by that.
  void keep() noexcept;
  /// Take over all of `other`, which has room then for as many as this had.
  void swap(Points& other) noexcept { entries_.swap(other.entries_); }

  void drop_last() noexcept;
  /// Give up what one holds that was taken out of entries().
  static void drop(const Entry& entry) noexcept;
  /// Whether all are known to be reached. Asks nobody.
  [[nodiscard]] bool known_reached() const noexcept;

 private:
  std::vector<Entry> entries_;
};

}  // namespace weir::spi
