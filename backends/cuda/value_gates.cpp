// SPDX-License-Identifier: Apache-2.0
#include "value_gates.hpp"

#include <atomic>

#include "context_scope.hpp"
#include "device.hpp"

namespace weir::cuda {

ValueGates::ValueGates(Gpu& gpu) {
  const ContextScope scope(gpu.context());
  constexpr auto bytes = count * sizeof(Word);
  void* host = nullptr;
  check(driver().MemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc",
        bytes, " bytes for ", gpu);
  const auto mapped = driver().MemHostGetDevicePointer(&address_, host, 0);
  if (mapped != CUDA_SUCCESS) driver().MemFreeHost(host);
  check(mapped, "cuMemHostGetDevicePointer", gpu);
  words_ = static_cast<Word*>(host);
  for (std::size_t i = 0; i < count; ++i) words_[i].value = 0;
}

std::optional<ValueGates::Gate> ValueGates::take() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < count; ++i) {
    if (used_[i]) continue;
    used_[i] = true;
    return Gate{i, address_ + i * sizeof(Word), words_[i].value + 1};
  }
  return std::nullopt;
}

void ValueGates::open(const Gate& gate) noexcept {
  const std::scoped_lock lock(mutex_);
  std::atomic_ref(words_[gate.index].value).store(gate.value, std::memory_order_release);
  used_[gate.index] = false;
}

}  // namespace weir::cuda
