// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that others can have belongs to nobody here between batches: what a batch uses of it has to be acquired from
// VK_QUEUE_FAMILY_EXTERNAL and released to it again. A transfer names a whole buffer, of which other batches may use
// other bytes meanwhile; the specification would order them, too, but only the bytes that a batch touches are judged.

#include <memory>
#include <vector>

#include "world.hpp"

namespace judge {

inline bool is_transfer(const Barrier::OfBuffer& change) { return change.from_family != change.to_family; }

/// What one batch has acquired and not released.
class Owned {
 public:
  explicit Owned(Queue& queue) : queue_(queue) {}

  /// Whether the bytes may be used now.
  void check(const Part& part, const Access& access, Where where) const;
  /// An acquire or a release; `from` is what it comes after, and `ends_writes` whether it makes writes available.
  void transfer(const Barrier& barrier, const Barrier::OfBuffer& change, const View& from, bool ends_writes);
  /// What an acquire reached, `barrier` takes further.
  void pass_on(const Barrier& barrier);
  /// The end of the batch.
  void end() const;

 private:
  struct Piece {
    std::shared_ptr<Buffer> buffer;
    Bytes begin, end;
    Number since;             ///< commands of this queue that came before the acquire
    Clock before, available;  ///< what the acquire came after
    Places ordered{}, read{}, written{};
  };

  void acquire(const Barrier& barrier, const Barrier::OfBuffer& change);
  void release(const Barrier::OfBuffer& change, const View& from, bool ends_writes);
  [[nodiscard]] std::vector<Piece>::const_iterator find(const Part& part) const;
  [[nodiscard]] bool mine(const Piece& piece, Point point) const {
    return point.queue == queue_.place && point.number > piece.since;
  }

  Queue& queue_;
  std::vector<Piece> pieces_;
};

}  // namespace judge
