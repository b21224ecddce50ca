// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in front of include/weir/spi/fork_link.hpp: nothing forks here. It is a friend of many classes, so it shows tests
// what they cannot see otherwise.

#include <cstdint>
#include <mutex>

namespace weir::spi {

enum class ForkMoment { before, parent, child };

class ForkLink {
 public:
  template <class T>
  explicit ForkLink(T&) {}
  template <class T, class F>
  static void for_each(F) {}

  /// How many have asked a stream for its turn so far.
  template <class Stream>
  static std::uint64_t asked(Stream& stream) {
    const std::scoped_lock lock(stream.mutex_);
    return stream.next_turn_;
  }
};

}  // namespace weir::spi
