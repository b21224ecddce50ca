// SPDX-License-Identifier: Apache-2.0
#pragma once
// Data that is not atomic, and a place for one thread at a time.

#include <type_traits>

#include "engine.hpp"

namespace weir::explore {

/// A number, an enumerator, a pointer, which others may touch only in an order that atomics, mutexes or barriers make.
/// Two accesses without one are reported, whether they come close to each other or not.
template <class T>
class Plain {
  static_assert(std::is_scalar_v<T>);

 public:
  constexpr Plain() noexcept : value_() {}
  constexpr Plain(T value) noexcept : value_(value) {}  // NOLINT: stands for a T
  Plain(const Plain& other) noexcept : value_(other.get()) {}
  Plain& operator=(const Plain& other) noexcept { return *this = other.get(); }

  [[nodiscard]] T get() const noexcept {
    if (running) running->read_plain(location_);
    return value_;
  }
  operator T() const noexcept { return get(); }  // NOLINT: stands for a T
  Plain& operator=(T value) noexcept {
    if (running) running->write_plain(location_);
    value_ = value;
    return *this;
  }
  T operator->() const noexcept { return get(); }

  Plain& operator++() noexcept { return *this = static_cast<T>(get() + 1); }
  Plain& operator--() noexcept { return *this = static_cast<T>(get() - 1); }
  T operator++(int) noexcept {
    const T before = get();
    *this = static_cast<T>(before + 1);
    return before;
  }
  T operator--(int) noexcept {
    const T before = get();
    *this = static_cast<T>(before - 1);
    return before;
  }
  template <class U>
  Plain& operator+=(U by) noexcept {
    return *this = static_cast<T>(get() + by);
  }
  template <class U>
  Plain& operator-=(U by) noexcept {
    return *this = static_cast<T>(get() - by);
  }
  template <class U>
  Plain& operator|=(U with) noexcept {
    return *this = static_cast<T>(get() | with);
  }
  template <class U>
  Plain& operator&=(U with) noexcept {
    return *this = static_cast<T>(get() & with);
  }

  [[nodiscard]] Location& location() const noexcept { return location_; }

 private:
  mutable Location location_;
  T value_;
};

/// What a lock protects: a second thread that enters while one is inside is reported. Orders nothing.
class Section {
 public:
  void enter(Where where = Where::here()) noexcept {
    if (running) running->enter(state_, where);
  }
  void leave(Where where = Where::here()) noexcept {
    if (running) running->leave(state_, where);
  }
  [[nodiscard]] Location& location() const noexcept { return state_.location; }

 private:
  mutable SectionState state_;
};

}  // namespace weir::explore
