// SPDX-License-Identifier: Apache-2.0
#pragma once
// What libraries share that stand between a program and its Vulkan driver.

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

#include <string_view>

namespace weir::vulkan::interpose {

/// vkGetInstanceProcAddr of the library that the environment's `variable` names, or of the system's loader. Null when
/// there is none.
inline PFN_vkGetInstanceProcAddr next_loader(const char* variable) {
  const char* chosen = secure_getenv(variable);
  void* library = dlopen(chosen && *chosen ? chosen : "libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr")) : nullptr;
}

enum class Function {
#define WEIR_VK_GLOBAL(name) name,
#define WEIR_VK_INSTANCE(name) name,
#define WEIR_VK_INSTANCE_OPTIONAL(name) name,
#define WEIR_VK_DEVICE(name) name,
#define WEIR_VK_DEVICE_OPTIONAL(name) name,
#include "vulkan/symbols.inc"
};

/// Functions of the driver that weir calls, each with one of the same type in front of it: `Policy::call(name, next,
/// arguments…)`, which calls `next` or does not.
template <class Policy>
class Front {
 public:
  /// What stands in front of `real`; `real` itself when weir does not call a function of that name.
  static PFN_vkVoidFunction of(std::string_view name, PFN_vkVoidFunction real) {
    if (!real) return nullptr;
#define WEIR_VK_GLOBAL(function) \
  if (name == #function) return Typed<PFN_##function>::template Of<Function::function>::put(#function, real);
#define WEIR_VK_INSTANCE(function) WEIR_VK_GLOBAL(function)
#define WEIR_VK_INSTANCE_OPTIONAL(function) WEIR_VK_GLOBAL(function)
#define WEIR_VK_DEVICE(function) WEIR_VK_GLOBAL(function)
#define WEIR_VK_DEVICE_OPTIONAL(function) WEIR_VK_GLOBAL(function)
#include "vulkan/symbols.inc"
    return real;
  }

 private:
  template <class F>
  struct Typed;
  template <class R, class... A>
  struct Typed<R(VKAPI_PTR*)(A...)> {
    template <Function>
    struct Of {
      static inline const char* name = nullptr;
      static inline R(VKAPI_PTR* next)(A...) = nullptr;
      static VKAPI_ATTR R VKAPI_CALL call(A... arguments) { return Policy::call(name, next, arguments...); }
      static PFN_vkVoidFunction put(const char* function, PFN_vkVoidFunction real) {
        name = function;
        next = reinterpret_cast<decltype(next)>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&call);
      }
    };
  };
};

}  // namespace weir::vulkan::interpose
