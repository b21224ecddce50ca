// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much memory a part of a program uses: current, most, in total; since the beginning, and in scopes.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/memory_resource.hpp"

namespace weir {

/// One figure over a time. In a scope, what lived at its beginning counts as 0: `current` is negative when
/// more of that was closed than came.
struct Counter {
  std::ptrdiff_t current = 0;
  std::ptrdiff_t peak = 0;  ///< most that `current` was; at least 0
  std::uint64_t total = 0;  ///< all that came, whether it lives or not
};

struct AllocationStatistics {
  Counter bytes;              ///< as asked for
  Counter buffers;            ///< count
  std::uint64_t refused = 0;  ///< requests that ended in exhaustion
};

/// Counts what goes through it, of all threads together, exactly. Neither more scopes nor deeper ones make an
/// allocation dearer: peaks are handed to the scopes when one begins or ends.
class StatisticsResource : public MemoryResource {
 public:
  /// Since the last push_counters() that was not popped, else since the resource was made.
  [[nodiscard]] virtual AllocationStatistics statistics() const = 0;
  /// Begin a scope inside the present one.
  virtual void push_counters() = 0;
  /// End it and return its figures; the scope around it goes on and has them, too. Throws invalid_argument
  /// when none was pushed. Threads that push and pop side by side end each other's scopes: use
  /// StatisticsScope there.
  virtual AllocationStatistics pop_counters() = 0;

 protected:
  using MemoryResource::MemoryResource;

 private:
  friend class StatisticsScope;
  virtual std::uint64_t begin_scope() = 0;
  [[nodiscard]] virtual AllocationStatistics scope(std::uint64_t number) const = 0;
  virtual void end_scope(std::uint64_t number) noexcept = 0;
};
using StatisticsPtr = std::shared_ptr<StatisticsResource>;

/// A scope as long as the object lives. Scopes may overlap in any way, and end on any thread.
class StatisticsScope {
 public:
  /// Throws invalid_argument for null.
  explicit StatisticsScope(StatisticsPtr resource);
  StatisticsScope(const StatisticsScope&) = delete;
  StatisticsScope& operator=(const StatisticsScope&) = delete;
  ~StatisticsScope();

  [[nodiscard]] AllocationStatistics statistics() const;

 private:
  StatisticsPtr resource_;
  std::uint64_t number_;
};

/// "statistics(upstream)". Throws invalid_argument without an upstream.
[[nodiscard]] StatisticsPtr make_statistics(ResourcePtr upstream);

}  // namespace weir
