// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bounded queue from one thread to another, without a lock.

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace weir::bench {

template <class T>
class Ring {
 public:
  explicit Ring(std::size_t places) : places_(places) {}

  /// Waits for a place.
  void push(T&& thing) {
    const auto at = pushed_.load(std::memory_order_relaxed);
    while (at - popped_.load(std::memory_order_acquire) == places_.size()) std::this_thread::yield();
    places_[at % places_.size()] = std::move(thing);
    pushed_.store(at + 1, std::memory_order_release);
  }
  /// Nothing will be pushed any more.
  void close() noexcept { closed_.store(true, std::memory_order_release); }
  /// Waits for a thing; false when none will come.
  bool pop(T& thing) {
    const auto at = popped_.load(std::memory_order_relaxed);
    while (at == pushed_.load(std::memory_order_acquire)) {
      if (closed_.load(std::memory_order_acquire) && at == pushed_.load(std::memory_order_acquire))
        return false;
      std::this_thread::yield();
    }
    thing = std::move(places_[at % places_.size()]);
    popped_.store(at + 1, std::memory_order_release);
    return true;
  }

 private:
  std::vector<T> places_;
  alignas(64) std::atomic<std::size_t> pushed_{0};
  alignas(64) std::atomic<std::size_t> popped_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace weir::bench
