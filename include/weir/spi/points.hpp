// SPDX-License-Identifier: Apache-2.0
#pragma once
// Points of several timelines, for something that waits for all of them.

#include <cstdint>
#include <vector>

#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/kept.hpp"
#include "weir/spi/waiter.hpp"

namespace weir::spi {

/// "Everything on `stream` up to `value`."
struct Point {
  Kept stream;              ///< the timeline
  std::uint64_t value = 0;  ///< a number on it
};

/// One point of each of several timelines. The timelines are used while the points are those of a live buffer. Once the
/// buffer is closed and waits for the points, one after another, the timelines are merely kept. As a waiter, the object
/// then stands in the queue of the timeline whose turn it is. Not thread-safe.
class WEIR_API Points : public Waiter {
 public:
  /// How the timeline of an entry stays.
  enum class How : std::uint8_t {
    use,   ///< used for the entry
    keep,  ///< kept for the entry
    lend   ///< used by the caller until keep() or clear()
  };
  /// One point.
  struct Entry {
    StreamState* stream;  ///< the timeline; one entry for each
    std::uint64_t value;  ///< the point on it
    How how;              ///< what ends with the entry
    void* tag = nullptr;  ///< set by a waiting owner that keeps the timeline itself
  };

  Points() noexcept = default;
  ~Points() { clear(); }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }     ///< no points
  [[nodiscard]] std::vector<Entry>& entries() noexcept { return entries_; }  ///< in the order in which they came
  /// Make room for this many further entries, so that adding them takes no memory.
  void reserve(std::size_t more) {
    if (entries_.capacity() - entries_.size() < more) entries_.reserve(2 * entries_.size() + more);
  }
  /// Add a point and leave room for `spare` more, or raise the point that the timeline already has. Only adding may
  /// take memory.
  void add(StreamState& stream, std::uint64_t value, How how, std::size_t spare = 0);
  /// Return the points, with a count of their own that keeps each timeline. Takes memory.
  [[nodiscard]] std::vector<Point> list() const;
  /// The same without points of `follower` and without those that are known to be reached. Takes memory for the others.
  [[nodiscard]] std::vector<Point> list_unreached(const StreamState* follower) const;
  /// Give up all entries. This may close or end some timelines.
  void clear() noexcept;
  /// From now on keep the timelines instead of using them. An entry with a tag only stops using its timeline, because
  /// the owner of the tag keeps it. This may close some timelines.
  void keep() noexcept;
  /// Exchange all entries, and the room for further ones, with `other`.
  void swap(Points& other) noexcept { entries_.swap(other.entries_); }

  /// Give up the last entry. There must be one.
  void drop_last() noexcept;
  /// Give up what an entry holds that was taken out of entries().
  static void drop(const Entry& entry) noexcept;
  /// Return whether all points are known to be reached. Asks no driver.
  [[nodiscard]] bool known_reached() const noexcept;

 private:
  std::vector<Entry> entries_;
};

}  // namespace weir::spi
