// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in front of include/weir/spi/fork_link.hpp: a process forks here where a test says so (explore::fork). It is a
// friend of many classes, so it shows tests what they cannot see otherwise.

#include <cstdint>
#include <mutex>

namespace weir::spi {

enum class ForkMoment { before, parent, child };

class ForkLink {
 public:
  template <class T>
  explicit ForkLink(T& object) : ForkLink(&object, &visit<T>) {}
  ForkLink(const ForkLink&) = delete;
  ForkLink& operator=(const ForkLink&) = delete;
  ~ForkLink();
  template <class T, class F>
  static void for_each(F) {}
  static void visit_all(ForkMoment moment) noexcept;

  /// How many have asked a stream for its turn so far.
  template <class Stream>
  static std::uint64_t asked(Stream& stream) {
    const std::scoped_lock lock(stream.mutex_);
    return stream.next_turn_;
  }

 private:
  using Visit = void (*)(void*, ForkMoment) noexcept;
  ForkLink(void* object, Visit how) noexcept;
  template <class T>
  static void visit(void* object, ForkMoment moment) noexcept {
    static_cast<T*>(object)->fork(moment);
  }

  void* object_;
  Visit visit_;
  ForkLink* previous_ = nullptr;
  ForkLink* next_ = nullptr;
};

}  // namespace weir::spi
