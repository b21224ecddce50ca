// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/block.hpp"

#include <new>
#include <utility>

#include "forks.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {

// A thread that was inside when the process forked never leaves in the child, where the record may be half changed.
class BlockGuard {
 public:
  explicit BlockGuard(Block& block) noexcept : block_(block) {
    const auto mine = detail::fork_generation;
    for (;;) {
      const auto before = block_.busy_.exchange(mine, std::memory_order_acquire);
      if (before == 0) return;
      if (before == mine) continue;
      block_.rebuild();
      return;
    }
  }
  ~BlockGuard() { block_.busy_.store(0, std::memory_order_release); }
  BlockGuard(const BlockGuard&) = delete;
  BlockGuard& operator=(const BlockGuard&) = delete;

 private:
  Block& block_;
};

// Any stream may have been recorded, so all are. Without memory for that, the memory is never given back.
void Block::rebuild() noexcept {
  new (&uses_) std::vector<Point>;  // the old one may be half changed
  try {
    ForkLink::for_each<StreamState>([this](StreamState& user) {
      if (&user == stream || user.device().inherited || !user.try_retain()) return;
      auto reference = Ref<StreamState>::adopt(&user);
      const auto value = user.position();
      uses_.push_back({std::move(reference), value});
    });
    uses_.reserve(uses_.size() + 1);
  } catch (const std::bad_alloc&) {
    if (segment) segment->retain();
  }
}

void Block::used(StreamState& user, std::uint64_t value) {
  if (&user == stream) return;
  const BlockGuard guard(*this);
  for (Point& use : uses_) {
    if (use.stream.get() == &user) {
      if (use.value < value) use.value = value;
      return;
    }
  }
  if (uses_.capacity() < uses_.size() + 2) uses_.reserve(2 * uses_.size() + 2);
  uses_.push_back({Ref<StreamState>::retain(&user), value});
}

std::vector<Point> Block::uses() {
  std::vector<Point> points;
  {
    const BlockGuard guard(*this);
    points = uses_;
  }
  if (stream) points.push_back({Ref<StreamState>::retain(stream), stream->position()});
  return points;
}

// Nobody is inside any more, but for a thread that the fork left in the parent.
void Block::leave_parent() noexcept {
  const auto inside = busy_.load(std::memory_order_relaxed);
  if (inside == 0 || inside == detail::fork_generation) [[likely]] return;
  rebuild();
  busy_.store(0, std::memory_order_relaxed);
}

std::vector<Point> Block::take_points() noexcept {
  leave_parent();
  if (stream) uses_.push_back({Ref<StreamState>::retain(stream), stream->position()});  // within the capacity
  return std::exchange(uses_, {});
}

bool Block::settle_uses(Unfinished& known) noexcept {
  leave_parent();
  std::erase_if(uses_, [&known](const Point& use) {
    if (use.stream.get() == known.stream && use.value >= known.value) return false;
    if (use.stream->finished(use.value)) return true;
    known = {use.stream.get(), use.value};
    return false;
  });
  return uses_.empty();
}

void Block::move_uses(Block& other) {
  leave_parent();
  other.uses_.reserve(other.uses_.size() + uses_.size() + 1);
  for (Point& use : uses_) {
    if (use.stream.get() != other.stream) other.uses_.push_back(std::move(use));
  }
  uses_.clear();
}

}  // namespace weir::spi
