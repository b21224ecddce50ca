// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the address sanitizer wants to know about fibers and memory; nothing without it.

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_EXPLORE_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define WEIR_EXPLORE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WEIR_EXPLORE_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define WEIR_EXPLORE_TSAN 1
#endif

#if defined(WEIR_EXPLORE_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace weir::explore {

#if defined(WEIR_EXPLORE_ASAN)
inline constexpr bool under_sanitizer = true;
inline void start_switch(void** save, const void* stack, std::size_t bytes) noexcept {
  __sanitizer_start_switch_fiber(save, stack, bytes);
}
inline void finish_switch(void* saved, const void** stack, std::size_t* bytes) noexcept {
  __sanitizer_finish_switch_fiber(saved, stack, bytes);
}
inline void register_root(const void* memory, std::size_t bytes) noexcept {
  __lsan_register_root_region(memory, bytes);
}
inline void unregister_root(const void* memory, std::size_t bytes) noexcept {
  __lsan_unregister_root_region(memory, bytes);
}
inline void poison(void* memory, std::size_t bytes) noexcept { __asan_poison_memory_region(memory, bytes); }
inline void unpoison(void* memory, std::size_t bytes) noexcept { __asan_unpoison_memory_region(memory, bytes); }
inline bool is_poisoned(const void* memory) noexcept { return __asan_address_is_poisoned(memory) != 0; }
inline void ignore_leak(void* memory) noexcept {
  asm("" : "+r"(memory));  // gcc takes it for a read of what malloc has just given
  __lsan_ignore_object(memory);
}
#else
inline constexpr bool under_sanitizer = false;
inline void start_switch(void**, const void*, std::size_t) noexcept {}
inline void finish_switch(void*, const void**, std::size_t*) noexcept {}
inline void register_root(const void*, std::size_t) noexcept {}
inline void unregister_root(const void*, std::size_t) noexcept {}
inline void poison(void*, std::size_t) noexcept {}
inline void unpoison(void*, std::size_t) noexcept {}
inline bool is_poisoned(const void*) noexcept { return false; }
inline void ignore_leak(void*) noexcept {}
#endif

}  // namespace weir::explore
