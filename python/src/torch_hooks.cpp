// SPDX-License-Identifier: Apache-2.0
// Functions for torch.cuda.memory.CUDAPluggableAllocator, which wants the names of two C functions of a library.
// PyTorch passes them the device and nothing else, so each allocator needs two functions of its own: a hook.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "cuda_allocator.hpp"

#if WEIR_HAS_CUDA

namespace weir::python {
namespace {

constexpr std::size_t most_hooks = 32, most_devices = 64;

/// An allocator for each device. PyTorch keeps the functions for as long as it likes, so a hook is never used again.
struct Hook {
  std::array<std::atomic<cuda::Allocator*>, most_devices> allocators{};
  std::mutex mutex;
  std::string failure;  // guarded by `mutex`
  std::atomic<bool> raises{false};

  [[nodiscard]] cuda::Allocator* of(int device) const noexcept {
    const auto index = static_cast<std::size_t>(device);
    return index < most_devices ? allocators[index].load(std::memory_order_acquire) : nullptr;
  }
  void fail(std::error_code code, const std::string& what) noexcept {
    report({code, "weir.torch: an allocation", what});
    const std::scoped_lock lock(mutex);
    failure = what;
  }
};

// Left to the operating system, because PyTorch frees memory until the very end.
std::array<Hook, most_hooks>& hooks() {
  static auto& all = *new std::array<Hook, most_hooks>;
  return all;
}

/// Return null for failure: PyTorch's cache gives back what it keeps then, asks again, and says what it can say. Why it
/// failed is reported, and kept in the hook. Without the cache, PyTorch would make a tensor of that null.
void* allocate(std::size_t which, std::size_t bytes, int device, CUstream_st* stream) {
  Hook& hook = hooks()[which];
  try {
    if (cuda::Allocator* const from = hook.of(device)) return from->allocate(stream, bytes);
    hook.fail(std::make_error_code(std::errc::invalid_argument),
              std::to_string(bytes) + " bytes asked for cuda:" + std::to_string(device) +
                  ", for which the allocator has no resource; name one in weir.torch.make_allocator");
  } catch (const OutOfMemory& error) {
    hook.fail(std::make_error_code(std::errc::not_enough_memory), error.what());
  } catch (const std::exception& error) {
    hook.fail(std::make_error_code(std::errc::io_error), error.what());
  }
  if (hook.raises) {
    const std::scoped_lock lock(hook.mutex);
    throw std::runtime_error("weir: " + hook.failure);
  }
  return nullptr;
}

void deallocate(std::size_t which, void* memory, int device, CUstream_st* stream) noexcept {
  if (cuda::Allocator* const to = hooks()[which].of(device)) to->deallocate(stream, memory);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names of C functions have a prefix.
#define WEIR_TORCH_HOOK(n)                                                                                  \
  extern "C" [[gnu::visibility("default")]] void* weir_torch_allocate_##n(std::size_t bytes, int device,    \
                                                                          CUstream_st* stream) {            \
    return allocate(n, bytes, device, stream);                                                              \
  }                                                                                                         \
  extern "C" [[gnu::visibility("default")]] void weir_torch_free_##n(void* memory, std::size_t, int device, \
                                                                     CUstream_st* stream) {                 \
    deallocate(n, memory, device, stream);                                                                  \
  }
#define WEIR_TORCH_HOOKS(X)                                                                                            \
  X(0)                                                                                                                 \
  X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) \
      X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
WEIR_TORCH_HOOKS(WEIR_TORCH_HOOK)
#undef WEIR_TORCH_HOOKS
#undef WEIR_TORCH_HOOK
// NOLINTEND(readability-identifier-naming)

namespace {

std::pair<std::string, std::string> take_hook(const nb::list& allocators) {
  static std::size_t used = 0;  // guarded by the GIL
  if (used == most_hooks) {
    throw Error(Errc::unsupported,
                "weir.torch: " + std::to_string(most_hooks) +
                    " allocators were made, and PyTorch may still use all of them; keep one for each "
                    "resource and use it again");
  }
  Hook& hook = hooks()[used];
  std::array<nb::handle, most_devices> wanted{};
  for (nb::handle one : allocators) {
    const int ordinal = nb::cast<cuda::Allocator&>(one).resource()->device().ordinal();
    const auto index = static_cast<std::size_t>(ordinal);
    if (index >= most_devices || wanted[index].is_valid()) {
      throw Error(Errc::invalid_argument, "weir.torch: two resources for cuda:" + std::to_string(ordinal));
    }
    wanted[index] = one;
  }
  for (std::size_t i = 0; i < most_devices; ++i) {
    if (!wanted[i].is_valid()) continue;
    wanted[i].inc_ref();  // for good
    hook.allocators[i].store(&nb::cast<cuda::Allocator&>(wanted[i]), std::memory_order_release);
  }
  const std::string number = std::to_string(used++);
  return {"weir_torch_allocate_" + number, "weir_torch_free_" + number};
}

Hook& hook_of(const std::string& name) {
  return hooks().at(static_cast<std::size_t>(std::stoul(name.substr(name.rfind('_') + 1))));
}

std::optional<std::string> failure_of(const std::string& name) {
  Hook& hook = hook_of(name);
  const std::scoped_lock lock(hook.mutex);
  if (hook.failure.empty()) return {};
  return hook.failure;
}

}  // namespace

void bind_torch_hooks(nb::module_& m) {
  m.def("_take_torch_hook", &take_hook, nb::arg("allocators"),
        "Return the names of two C functions of this module that allocate from these CudaAllocators, of which each is "
        "for another device. They stay for good.");
  m.def("_torch_hook_failure", &failure_of, nb::arg("name"),
        "Return why the last allocation that failed did so; None if none did.");
  m.def(
      "_torch_hook_raises", [](const std::string& name) { hook_of(name).raises = true; }, nb::arg("name"),
      "Let allocations that fail throw, for a PyTorch that calls the function without its cache.");
}

}  // namespace weir::python

#else

void weir::python::bind_torch_hooks(nb::module_& /*m*/) {}

#endif
