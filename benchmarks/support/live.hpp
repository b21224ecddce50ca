// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that is held between the rounds of a row, given back also when a round throws.

#include <cstddef>
#include <utility>
#include <vector>

#include "allocator.hpp"

namespace weir::bench {

/// A fixed number of places for memory of one stream, all empty at first.
template <Allocator A>
class Live {
 public:
  Live(const A& allocator, typename A::Stream stream, std::size_t count)
      : allocator_(allocator), stream_(std::move(stream)), held_(count) {}
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
  ~Live() {
    try {
      for (auto& held : held_) allocator_.free(held, stream_);
      allocator_.synchronize(stream_);
    } catch (...) {  // the row says already why it ended
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return held_.size(); }
  void allocate(std::size_t place, std::size_t bytes) { held_[place] = allocator_.allocate(bytes, stream_); }
  void free(std::size_t place) { allocator_.free(held_[place], stream_); }
  /// Free a place and let what is in the place `last` have it.
  void free_and_fill(std::size_t place, std::size_t last) {
    free(place);
    if (place != last) held_[place] = std::exchange(held_[last], {});
  }

 private:
  const A& allocator_;
  typename A::Stream stream_;
  std::vector<typename A::Held> held_;
};

}  // namespace weir::bench
