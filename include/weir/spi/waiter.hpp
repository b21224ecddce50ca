// SPDX-License-Identifier: Apache-2.0
#pragma once
// What happens when a timeline has passed a value. StreamState::after puts it into the timeline's queue.

#include <cstdint>

#include "weir/fwd.hpp"
#include "weir/spi/point_queue.hpp"

namespace weir::spi {

/// Stands in the queue of one timeline at a time, and asks for no memory there. It must not end while it does.
class Waiter {
 public:
  /// Called once, on whichever thread looks, without any lock, with the waiter out of the queue: it may stand in another
  /// one afterwards, or end. Must be quick, must not wait and must not call a user's function.
  using Passed = void (*)(Waiter& self) noexcept;

  Waiter() noexcept = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Whether it stands in a queue. Only a forked child may ask: elsewhere it changes at any moment.
  [[nodiscard]] bool stands() const noexcept { return stands_; }

 protected:
  ~Waiter() = default;

 private:
  friend class StreamState;
  struct Order {
    static std::uint64_t value(const Waiter& waiter) noexcept { return waiter.value_; }
    static Waiter*& left(Waiter& waiter) noexcept { return waiter.left_; }
    static Waiter*& right(Waiter& waiter) noexcept { return waiter.right_; }
  };

  Passed passed_ = nullptr;
  std::uint64_t value_ = 0;
  Waiter *left_ = nullptr, *right_ = nullptr;
  bool stands_ = false;
};

}  // namespace weir::spi
