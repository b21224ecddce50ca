// SPDX-License-Identifier: Apache-2.0
#pragma once
// A waiter is what happens when a timeline has passed a value. StreamState::after puts it into the timeline's queue.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "weir/fwd.hpp"
#include "weir/spi/point_queue.hpp"

namespace weir::spi {

class InHand;

/// Stands in the queue of one timeline at a time, and takes no memory for that. Must not be destroyed while it stands
/// there.
class Waiter {
 public:
  /// Called once, without any lock, on the thread that sees that the value has passed. The waiter has left the queue:
  /// it may be put into another queue, or destroyed. The timeline lives until the call returns. The function may take
  /// over other waiters that passed at the same time. It must be quick, must not wait and must not call a user's
  /// function.
  using Passed = void (*)(Waiter& self, InHand& others) noexcept;

  Waiter() noexcept = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Return whether the waiter stands in a queue. Only a forked child may ask: elsewhere this changes at any moment.
  [[nodiscard]] bool stands() const noexcept { return stands_; }
  /// From now on, also call the function when it turns out that nobody will ever know when the value has passed.
  /// Otherwise the waiter then stands there for ever. Must not be called while it stands in a queue.
  void give_up_on_unknown() noexcept { gives_up_ = true; }

 protected:
  ~Waiter() = default;

 private:
  friend class InHand;
  friend class StreamState;
  friend class WaiterQueue;
  struct Order {
    static std::uint64_t value(const Waiter& waiter) noexcept { return waiter.value_; }
    static Waiter*& left(Waiter& waiter) noexcept { return waiter.left_; }
    static Waiter*& right(Waiter& waiter) noexcept { return waiter.right_; }
  };

  Passed passed_ = nullptr;
  std::uint64_t value_ = 0;
  Waiter *left_ = nullptr, *right_ = nullptr;
  Waiter* same_ = nullptr;  // in a queue: the next waiter for the same value; in hand: the next waiter
  bool stands_ = false;
  bool gives_up_ = false;  // on a value of which nobody will know when it has passed
};

/// Waiters in the order of their values. A waiter with the same value as the one that came before joins that one
/// without a search: buffers that are closed while a stream stands still all wait for the same value.
class WaiterQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return by_value_.empty(); }  ///< nothing waits
  /// Return the smallest value. The queue must not be empty.
  [[nodiscard]] std::uint64_t first_value() const noexcept { return by_value_.first().value_; }
  /// Return the largest value. The queue must not be empty.
  [[nodiscard]] std::uint64_t last_value() const noexcept { return by_value_.last().value_; }
  /// Put in `waiter`, which stands in no queue.
  void insert(Waiter& waiter) noexcept {
    giving_up_ += waiter.gives_up_ ? 1 : 0;
    if (latest_ && latest_->value_ == waiter.value_) {
      waiter.same_ = std::exchange(latest_->same_, &waiter);
      return;
    }
    waiter.same_ = nullptr;
    by_value_.insert(waiter);
    latest_ = &waiter;
  }
  /// Take out a waiter with the smallest value. The queue must not be empty.
  Waiter& take_first() noexcept {
    Waiter* taken = &by_value_.first();
    if (taken->same_) {
      taken = std::exchange(taken->same_, taken->same_->same_);
    } else {
      if (latest_ == taken) latest_ = nullptr;
      (void)by_value_.take_first();
    }
    giving_up_ -= taken->gives_up_ ? 1 : 0;
    return *taken;
  }
  /// Call `take` with each waiter that gives up on what nobody will know, and take it out before. Costs a search of the
  /// whole queue if there is one.
  template <class Take>
  void take_giving_up(const Take& take) noexcept {
    if (giving_up_ == 0) return;
    Waiter* others = nullptr;
    while (!empty()) {
      Waiter& one = take_first();
      if (one.gives_up_) {
        take(one);
      } else {
        one.same_ = std::exchange(others, &one);
      }
    }
    while (others) insert(*std::exchange(others, others->same_));
  }

 private:
  PointQueue<Waiter, Waiter::Order> by_value_;  // one of each group that came in a row with the same value
  Waiter* latest_ = nullptr;                    // the one of these that came last
  std::size_t giving_up_ = 0;                   // how many would
};

/// Waiters that have left the queue of a timeline because it has passed their values. One thread calls them in turn.
class InHand {
 public:
  InHand() noexcept = default;
  InHand(const InHand&) = delete;
  InHand& operator=(const InHand&) = delete;

  /// Return the next waiter if it has the same function, else null. take() gives that waiter to the caller.
  [[nodiscard]] Waiter* next(Waiter::Passed function) const noexcept {
    return first_ && first_->passed_ == function ? first_ : nullptr;
  }
  /// Give the next waiter to the caller. There must be one.
  Waiter& take() noexcept {
    ++taken_;
    return *std::exchange(first_, first_->same_);
  }

 private:
  friend class StreamState;
  void add(Waiter& waiter) noexcept {
    waiter.same_ = nullptr;
    *end_ = &waiter;
    end_ = &waiter.same_;
  }

  Waiter* first_ = nullptr;
  Waiter** end_ = &first_;
  std::size_t taken_ = 0;
};

}  // namespace weir::spi
