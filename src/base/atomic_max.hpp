// SPDX-License-Identifier: Apache-2.0
#pragma once
// A maximum to which several threads contribute.

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// Raise `word` to `value` if it is smaller.
template <class T>
void atomic_max(sync::Atomic<T>& word, T value) noexcept {
  auto seen = word.load(std::memory_order_relaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_acq_rel)) {
  }
}

}  // namespace weir::detail
