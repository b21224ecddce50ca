// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <thread>

#include "time_limits.hpp"
#include "weir/buffer.hpp"
#include "weir/channel.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/segment.hpp"

namespace weir::test {

/// Wait until `wanted` is true of the counts of `channel`, and return whether it is. What the peer gives back comes by
/// itself.
template <class Wanted>
[[nodiscard]] bool comes_to(const ipc::Channel& channel, Wanted wanted) {
  const auto deadline = std::chrono::steady_clock::now() + answer_limit();
  while (!wanted(channel.stats())) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}
/// Wait until the peer of `channel` has given everything back, and return whether it has.
[[nodiscard]] inline bool all_comes_back(const ipc::Channel& channel) {
  return comes_to(channel, [](const ipc::ChannelStats& stats) { return stats.lent == 0; });
}

/// Return how many pages of a paged segment hold the buffer.
[[nodiscard]] inline std::size_t count_pages(const Buffer& buffer) {
  const auto place = buffer.location();
  return place.segment->paged()->hold(place.offset, buffer.size()).pages.size();
}

}  // namespace weir::test
