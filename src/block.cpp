// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/block.hpp"

#include <utility>

#include "weir/spi/stream_state.hpp"

namespace weir::spi {
namespace {

class SpinGuard {
 public:
  explicit SpinGuard(std::atomic_flag& flag) noexcept : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~SpinGuard() { flag_.clear(std::memory_order_release); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

void Block::used(StreamState& user, std::uint64_t value) {
  if (&user == stream.get()) return;
  const SpinGuard guard(busy_);
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
    const SpinGuard guard(busy_);
    points = uses_;
  }
  if (stream) points.push_back({stream, stream->position()});
  return points;
}

std::vector<Point> Block::take_points() noexcept {
  if (stream) uses_.push_back({stream, stream->position()});  // within the capacity
  return std::exchange(uses_, {});
}

}  // namespace weir::spi
