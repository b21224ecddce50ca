// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much memory a part of a program uses: now, at most and in total, since the beginning and in scopes.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// One figure over a period. In a scope, what was live at its beginning counts as 0, so `current` is negative when more
/// was closed than was allocated since.
struct Counter {
  std::ptrdiff_t current = 0;  ///< what is live now
  std::ptrdiff_t peak = 0;  ///< the most that `current` was; at least 0
  std::uint64_t total = 0;  ///< everything that was allocated, live or not
};

/// What a StatisticsResource counts.
struct AllocationStatistics {
  Counter bytes;              ///< as asked for
  Counter buffers;            ///< count
  std::uint64_t refused = 0;  ///< requests that ended in exhaustion
};

/// Counts exactly what goes through it, for all threads together. Neither the number nor the depth of scopes makes an
/// allocation more expensive, because peaks are passed to the scopes only when a scope begins or ends.
class WEIR_API StatisticsResource : public MemoryResource {
 public:
  /// Return the figures since the last push_counters() that was not popped, else since the resource was made.
  [[nodiscard]] virtual AllocationStatistics statistics() const = 0;
  /// Begin a scope inside the current scope.
  virtual void push_counters() = 0;
  /// End the scope that was pushed last and return its figures. The scope around it continues and includes them. Throws
  /// invalid_argument when no scope was pushed. Threads that push and pop side by side end each other's scopes; they
  /// should use StatisticsScope.
  virtual AllocationStatistics pop_counters() = 0;

 protected:
  using MemoryResource::MemoryResource;

 private:
  friend class StatisticsScope;
  /// For StatisticsScope: begin a scope and return its number, which no other scope of the resource has.
  virtual std::uint64_t begin_scope() = 0;
  /// Return the figures of that scope so far.
  [[nodiscard]] virtual AllocationStatistics scope(std::uint64_t number) const = 0;
  /// End that scope, whichever scopes have begun since.
  virtual void end_scope(std::uint64_t number) noexcept = 0;
};
/// Handle of a StatisticsResource.
using StatisticsPtr = std::shared_ptr<StatisticsResource>;

/// A scope that lasts as long as the object. Scopes may overlap in any way, and end on any thread.
class WEIR_API StatisticsScope {
 public:
  /// Throws invalid_argument for null.
  explicit StatisticsScope(StatisticsPtr resource);
  StatisticsScope(const StatisticsScope&) = delete;
  StatisticsScope& operator=(const StatisticsScope&) = delete;
  ~StatisticsScope();

  [[nodiscard]] AllocationStatistics statistics() const;  ///< since the object was made

 private:
  StatisticsPtr resource_;
  std::uint64_t number_;
};

/// Make "statistics(upstream)". Throws invalid_argument when `upstream` is null.
[[nodiscard]] WEIR_API StatisticsPtr make_statistics(ResourcePtr upstream);

}  // namespace weir
