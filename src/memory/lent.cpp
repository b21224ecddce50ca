// SPDX-License-Identifier: Apache-2.0
#include "memory/lent.hpp"

#include <atomic>

namespace weir::detail {
namespace {

constinit std::atomic<SettleLent> answers{nullptr};

}  // namespace

void answer_for_lent(SettleLent settle) noexcept { answers.store(settle, std::memory_order_release); }

bool settle_lent() {
  const auto settle = answers.load(std::memory_order_acquire);
  return settle && settle();
}

}  // namespace weir::detail
