// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many bytes of other processes' segments are open, when several buffers and connections have the same segment.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork_mutex.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

/// Counts a segment once, however many owners it has.
class CountedSegments {
 public:
  /// While the returned object or a copy of it exists, the segment counts. It has an identity.
  [[nodiscard]] std::shared_ptr<const void> count(spi::Segment& segment) {
    return std::make_shared<Owner>(*this, segment.id(), segment.size);
  }
  [[nodiscard]] std::size_t bytes() const {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  using Id = std::pair<std::uint64_t, std::uint64_t>;
  struct Owner {
    Owner(CountedSegments& in, spi::SegmentId of, std::size_t size) : all(in), id(of.high, of.low) {
      const std::scoped_lock lock(all.mutex_);
      Counted& counted = all.owners_[id];
      if (counted.owners++ != 0) return;
      counted.bytes = size;
      all.bytes_ += size;
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
      const std::scoped_lock lock(all.mutex_);
      const auto known = all.owners_.find(id);
      if (--known->second.owners != 0) return;
      all.bytes_ -= known->second.bytes;
      all.owners_.erase(known);
    }
    CountedSegments& all;
    const Id id;
  };
  struct Counted {
    std::size_t owners = 0;
    std::size_t bytes = 0;  // as added: another owner may say another size, if peers lie about identities
  };

  mutable ForkMutex mutex_;
  std::map<Id, Counted> owners_;
  std::size_t bytes_ = 0;
};

}  // namespace weir::detail
