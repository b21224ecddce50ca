// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is ordered before what: for every queue the number of the last command that comes before.

#include <algorithm>
#include <array>
#include <cstdint>

namespace judge {

/// Of a command on its queue, from 1 on in the order of submission.
using Number = std::uint64_t;

/// Queues that live at once; the place of one that ended is used again, and its numbers go on.
inline constexpr int most_queues = 32;

/// One command, or the end of a batch.
struct Point {
  int queue = -1;
  Number number = 0;
  [[nodiscard]] bool exists() const { return queue >= 0; }
};

/// A set of commands: all up to a number, of each queue.
class Clock {
 public:
  void raise(Point point) {
    auto& known = last_[static_cast<std::size_t>(point.queue)];
    known = std::max(known, point.number);
  }
  void merge(const Clock& other) {
    for (std::size_t i = 0; i < last_.size(); ++i) last_[i] = std::max(last_[i], other.last_[i]);
  }
  [[nodiscard]] bool covers(Point point) const {
    return !point.exists() || last_[static_cast<std::size_t>(point.queue)] >= point.number;
  }
  [[nodiscard]] Number of(int queue) const { return last_[static_cast<std::size_t>(queue)]; }
  [[nodiscard]] bool covers(const Clock& other) const {
    for (std::size_t i = 0; i < last_.size(); ++i) {
      if (last_[i] < other.last_[i]) return false;
    }
    return true;
  }

 private:
  std::array<Number, most_queues> last_{};
};

}  // namespace judge
