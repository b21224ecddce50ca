// SPDX-License-Identifier: Apache-2.0
#pragma once
// The largest of what several threads say.

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// Make `word` at least `value`.
template <class T>
void atomic_max(sync::Atomic<T>& word, T value) noexcept {
  auto seen = word.load(std::memory_order_relaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_acq_rel)) {
  }
}

}  // namespace weir::detail
