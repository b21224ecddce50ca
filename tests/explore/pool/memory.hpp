// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory for a pool that is explored: addresses without anything behind them, and what the pool needs besides.

#include <array>
#include <cstddef>
#include <utility>

#include "explore.hpp"
#include "timeline.hpp"
#include "weir/buffer.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"
#include "weir/stream.hpp"

namespace weir::test {

/// Upstream: gives one segment for each request, and counts what it has not got back.
[[nodiscard]] ResourcePtr upstream();
[[nodiscard]] std::size_t segments_out();  ///< since begin_world_of_pools
/// As begin_world().
void begin_world_of_pools();

/// The bytes of a pool's memory, as far as a run uses them: what two threads do there without an order, or two live
/// buffers in one place, is a race.
class Bytes {
 public:
  static constexpr std::size_t unit = 256, units = 8;

  void begin(const Buffer& buffer) {
    int& owner = owners_.at(at(buffer));
    explore::require(owner == 0, "no other buffer lives there");
    owner = 1;
    touch(buffer);
  }
  void touch(const Buffer& buffer) { ++touched_.at(at(buffer)); }
  void end(Buffer& buffer) {
    touch(buffer);
    owners_.at(at(buffer)) = 0;
    buffer.close();
  }

 private:
  static std::size_t at(const Buffer& buffer) { return buffer.location().offset / unit; }

  std::array<sync::Plain<int>, units> touched_{};
  std::array<int, units> owners_{};
};

/// Threads of a scene that a pool takes for the one that set the scene up.
void be_the_first_thread();

/// A handle of the timeline. The count of uses that its maker has goes with it.
[[nodiscard]] Stream handle(Timeline* timeline);

}  // namespace weir::test
