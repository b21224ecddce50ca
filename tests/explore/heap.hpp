// SPDX-License-Identifier: Apache-2.0
#pragma once
// The program's operator new and delete. What a run deletes stays where it is until the run is over, so that an access
// to it afterwards is seen; and blocks that a run leaves are counted.

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace weir::explore {

/// While one exists, this thread's allocations belong to a run.
class TrackedHeap {
 public:
  TrackedHeap() noexcept;
  ~TrackedHeap();
  TrackedHeap(const TrackedHeap&) = delete;
  TrackedHeap& operator=(const TrackedHeap&) = delete;
  /// Allocated so far, less deleted.
  [[nodiscard]] static long left() noexcept;
};

/// While one exists, they do not.
class UntrackedHeap {
 public:
  UntrackedHeap() noexcept;
  ~UntrackedHeap();
  UntrackedHeap(const UntrackedHeap&) = delete;
  UntrackedHeap& operator=(const UntrackedHeap&) = delete;

 private:
  bool before_;
};

/// For what the explorer itself keeps: not part of any run.
template <class T>
struct Untracked {
  using value_type = T;
  Untracked() noexcept = default;
  template <class U>
  Untracked(const Untracked<U>&) noexcept {}
  T* allocate(std::size_t count) {
    void* const memory = std::malloc(count * sizeof(T));
    if (!memory) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }
  friend bool operator==(const Untracked&, const Untracked&) = default;
};

template <class T>
using List = std::vector<T, Untracked<T>>;

}  // namespace weir::explore
