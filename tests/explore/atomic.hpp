// SPDX-License-Identifier: Apache-2.0
#pragma once
// std::atomic with the explorer behind it. Outside of a run's threads it is an ordinary variable.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine.hpp"

namespace weir::explore {

template <class T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "the explorer keeps values in eight bytes");
  using Order = std::memory_order;
  static constexpr Order seq_cst = std::memory_order_seq_cst;
  // What fetch_add takes: the type itself, or a distance.
  using Difference = std::conditional_t<std::is_pointer_v<T>, std::ptrdiff_t, T>;

 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = true;

  constexpr Atomic() noexcept : value_() {}
  constexpr Atomic(T value) noexcept : value_(value) {}  // NOLINT: as std::atomic's
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[nodiscard]] bool is_lock_free() const noexcept { return true; }

  T load(Order order = seq_cst, Where where = Where::here()) const noexcept {
    if (!running) return value_;
    return value_of(running->load(location_, &value_, sizeof(T), order, where));
  }
  void store(T value, Order order = seq_cst, Where where = Where::here()) noexcept {
    if (!running) {
      value_ = value;
    } else {
      running->store(location_, &value_, sizeof(T), bits_of(value), order, where);
    }
  }
  operator T() const noexcept { return load(); }  // NOLINT: as std::atomic's
  T operator=(T value) noexcept {                 // NOLINT: as std::atomic's
    store(value);
    return value;
  }

  T exchange(T value, Order order = seq_cst, Where where = Where::here()) noexcept {
    return modify([value](T) { return value; }, order, where);
  }
  bool compare_exchange_strong(T& expected, T wanted, Order success, Order failure,
                               Where where = Where::here()) noexcept {
    return compare_exchange(expected, wanted, false, success, failure, where);
  }
  bool compare_exchange_strong(T& expected, T wanted, Order order = seq_cst, Where where = Where::here()) noexcept {
    return compare_exchange(expected, wanted, false, order, when_it_fails(order), where);
  }
  bool compare_exchange_weak(T& expected, T wanted, Order success, Order failure,
                             Where where = Where::here()) noexcept {
    return compare_exchange(expected, wanted, true, success, failure, where);
  }
  bool compare_exchange_weak(T& expected, T wanted, Order order = seq_cst, Where where = Where::here()) noexcept {
    return compare_exchange(expected, wanted, true, order, when_it_fails(order), where);
  }

  T fetch_add(Difference by, Order order = seq_cst, Where where = Where::here()) noexcept {
    return modify([by](T value) { return sum(value, by); }, order, where);
  }
  T fetch_sub(Difference by, Order order = seq_cst, Where where = Where::here()) noexcept {
    return modify([by](T value) { return difference(value, by); }, order, where);
  }
  T fetch_or(T with, Order order = seq_cst, Where where = Where::here()) noexcept {
    return modify([with](T value) { return static_cast<T>(value | with); }, order, where);
  }
  T fetch_and(T with, Order order = seq_cst, Where where = Where::here()) noexcept {
    return modify([with](T value) { return static_cast<T>(value & with); }, order, where);
  }
  T fetch_xor(T with, Order order = seq_cst, Where where = Where::here()) noexcept {
    return modify([with](T value) { return static_cast<T>(value ^ with); }, order, where);
  }
  T operator++() noexcept { return sum(fetch_add(1), 1); }
  T operator++(int) noexcept { return fetch_add(1); }
  T operator--() noexcept { return difference(fetch_sub(1), 1); }
  T operator--(int) noexcept { return fetch_sub(1); }
  T operator+=(Difference by) noexcept { return sum(fetch_add(by), by); }
  T operator-=(Difference by) noexcept { return difference(fetch_sub(by), by); }
  T operator|=(T with) noexcept { return static_cast<T>(fetch_or(with) | with); }
  T operator&=(T with) noexcept { return static_cast<T>(fetch_and(with) & with); }
  T operator^=(T with) noexcept { return static_cast<T>(fetch_xor(with) ^ with); }

  [[nodiscard]] Location& location() const noexcept { return location_; }

 private:
  static std::uint64_t bits_of(const T& value) noexcept {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
  static T value_of(std::uint64_t bits) noexcept {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // Numbers wrap around.
  static T sum(T value, Difference by) noexcept {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(value) + static_cast<Unsigned>(by)));
    } else {
      return value + by;
    }
  }
  static T difference(T value, Difference by) noexcept {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(value) - static_cast<Unsigned>(by)));
    } else {
      return value - by;
    }
  }
  static constexpr Order when_it_fails(Order order) noexcept {
    if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
    return order == std::memory_order_release ? std::memory_order_relaxed : order;
  }
  bool compare_exchange(T& expected, T wanted, bool weak, Order success, Order failure, Where where) noexcept {
    if (running) running->begin_modify(location_, where);
    const T before = value_;
    if (bits_of(before) != bits_of(expected) || (weak && running && running->fails_for_no_reason())) {
      if (running) running->end_failed_modify(location_, failure, bits_of(before), where);
      expected = before;
      return false;
    }
    value_ = wanted;
    if (running) running->end_modify(location_, success, bits_of(before), bits_of(wanted), where);
    return true;
  }
  template <class F>
  T modify(F change, Order order, Where where) noexcept {
    if (running) running->begin_modify(location_, where);
    const T before = value_;
    value_ = change(before);
    if (running) running->end_modify(location_, order, bits_of(before), bits_of(value_), where);
    return before;
  }

  mutable Location location_;
  T value_;
};

}  // namespace weir::explore
