// SPDX-License-Identifier: Apache-2.0
#pragma once
// How an object takes part when the process forks. docs/adr/0005-forks.md says what a child may count on.

#include <functional>

namespace weir::spi {

/// When `fork` is called.
enum class ForkMoment {
  before,  ///< in the parent, before the fork
  parent,  ///< in the parent, after the fork
  child    ///< in the child
};

/// Member of a class whose objects must be in order in a forked child. The class's `fork(moment)` is called on every
/// object before the fork, to take the object's locks, and after the fork in both processes. Such a lock is never held
/// across a call into a driver or a user's function, and `fork` destroys no object. A ForkLink must be the last member,
/// so that the object is out of reach before any other member is destroyed.
class ForkLink {
 public:
  /// Have `object.fork` called at every fork, for as long as this link exists.
  template <class T>
  explicit ForkLink(T& object) : ForkLink(&object, &visit<T>) {}
  ForkLink(const ForkLink&) = delete;
  ForkLink& operator=(const ForkLink&) = delete;
  ~ForkLink();  ///< takes the object out of the list

  /// Call `function` on every object of class T, under the lock of the list.
  template <class T, class F>
  static void for_each(F function) {
    walk([&](const ForkLink& link) {
      if (link.visit_ == &visit<T>) function(*static_cast<T*>(link.object_));
    });
  }

  static void visit_all(ForkMoment moment) noexcept;  ///< for the handlers; `before` locks the list, others unlock it

 private:
  using Visit = void (*)(void*, ForkMoment) noexcept;
  ForkLink(void* object, Visit how) noexcept;
  template <class T>
  static void visit(void* object, ForkMoment moment) noexcept {
    static_cast<T*>(object)->fork(moment);
  }
  static void walk(const std::function<void(const ForkLink&)>& step);

  void* object_;
  Visit visit_;
  ForkLink* previous_ = nullptr;
  ForkLink* next_ = nullptr;
};

}  // namespace weir::spi
