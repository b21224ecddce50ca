// SPDX-License-Identifier: Apache-2.0
#include "heap.hpp"

#include <malloc.h>

#include <utility>

#include "sanitizers.hpp"

namespace weir::explore {
namespace {

constinit thread_local bool tracked = false;  // other threads, such as the watchdog's, allocate as usual
constinit long blocks = 0;

/// Deleted during this run. Grows by malloc, because it grows inside operator delete.
List<void*>& deleted() {
  static auto& list = *new List<void*>;
  return list;
}

void* note(void* memory) noexcept {
  if (tracked) {
    ++blocks;
    ignore_leak(memory);  // the explorer counts them; a run that failed is left as it stands
  }
  return memory;
}

void* allocate(std::size_t bytes) noexcept { return note(std::malloc(bytes ? bytes : 1)); }

void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  const auto align = static_cast<std::size_t>(alignment);
  return note(std::aligned_alloc(align, (bytes ? bytes + align - 1 : align) / align * align));
}

void give_back(void* memory) noexcept {
  if (!tracked || !memory) return std::free(memory);
  --blocks;
  poison(memory, malloc_usable_size(memory));
  deleted().push_back(memory);
}

void* required(void* memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

TrackedHeap::TrackedHeap() noexcept {
  (void)deleted();
  blocks = 0;
  tracked = true;
}

TrackedHeap::~TrackedHeap() {
  tracked = false;
  for (void* memory : deleted()) {
    unpoison(memory, malloc_usable_size(memory));
    std::free(memory);
  }
  deleted().clear();
}

UntrackedHeap::UntrackedHeap() noexcept : before_(std::exchange(tracked, false)) {}
UntrackedHeap::~UntrackedHeap() { tracked = before_; }

long TrackedHeap::left() noexcept { return blocks; }

}  // namespace weir::explore

namespace heap = weir::explore;

void* operator new(std::size_t bytes) { return heap::required(heap::allocate(bytes)); }
void* operator new[](std::size_t bytes) { return heap::required(heap::allocate(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return heap::allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return heap::allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t align) { return heap::required(heap::allocate(bytes, align)); }
void* operator new[](std::size_t bytes, std::align_val_t align) { return heap::required(heap::allocate(bytes, align)); }
void operator delete(void* memory) noexcept { heap::give_back(memory); }
void operator delete[](void* memory) noexcept { heap::give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { heap::give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { heap::give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { heap::give_back(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { heap::give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { heap::give_back(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { heap::give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { heap::give_back(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { heap::give_back(memory); }
