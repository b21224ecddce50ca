// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that is lent to somebody outside the library, such as another process, is free again at a moment that nobody
// here chooses. The code that lends memory registers functions here, and code that needs memory, or says what there is,
// has them called.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/error.hpp"
#include "weir/memory_resource.hpp"

namespace weir::detail {

/// What one borrower has. The numbers are those of ipc::LeasedTo.
struct LentTo {
  std::int32_t process = 0;
  std::size_t buffers = 0, bytes = 0, closed_buffers = 0, closed_bytes = 0;
};

/// What all borrowers have of a resource's memory; each buffer counts once.
struct Lent {
  std::size_t buffers = 0, bytes = 0, closed_buffers = 0, closed_bytes = 0;
  std::vector<LentTo> to;                 ///< the one with the most bytes first
  std::vector<const spi::Block*> closed;  ///< in the order of their addresses; compared, never followed
};

/// Gathers the loans of one resource's memory.
class LentList {
 public:
  explicit LentList(const MemoryResource& of) noexcept : of_(&of) {}
  /// Somebody keeps `buffer` for a process, whose id is 0 if it is not known. Called under the lock of whoever keeps
  /// it, so that it stays meanwhile.
  void add(const Buffer& buffer, std::int32_t process);
  /// Return what was added, in numbers.
  [[nodiscard]] Lent count();

 private:
  struct Loan {
    const spi::Block* block;
    std::int32_t process;
    std::uint32_t owners;
    std::size_t bytes;
  };
  [[nodiscard]] bool stands_on_it(const MemoryResource& resource);

  const MemoryResource* of_;
  std::vector<std::pair<const MemoryResource*, bool>> asked_;
  std::vector<Loan> loans_;
};

/// What every way of lending memory answers.
struct LentAnswers {
  /// Give memory back to its resource once the borrower has returned it. Return false when there was nothing to look
  /// at.
  bool (*settle)();
  /// Add all buffers that are lent.
  void (*list)(LentList& list);
};

/// Have the functions below ask `answers` from now on. There is room for one, which knows every way of lending.
void answer_for_lent(const LentAnswers& answers) noexcept;

/// Have all memory that was returned before this call given back to its resource. Return false when nothing is lent.
bool settle_lent();
/// Return what is lent of memory that came through `resource`, or through resources that stand on it.
[[nodiscard]] Lent lent_of(const MemoryResource& resource);
/// Write into the statistics what is lent of the resource's memory.
void count_lent(const MemoryResource& resource, ResourceStats& stats);
/// Write into `shortage` how much of the resource's memory is missing because others still use it, and who they are.
void tell_of_lent(const MemoryResource& resource, Shortage& shortage);

}  // namespace weir::detail
