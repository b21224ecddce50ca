// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore>
#include <utility>

#include "ipc/channel/link.hpp"

namespace weir::test {

/// Keeps the thread of the channels when it attends to the link for the first time.
struct Busy final : detail::channel::LinkObserver {
  void link_changed() noexcept override {
    if (std::exchange(seen, true)) return;
    begun.release();
    goes_on.acquire();
  }
  bool seen = false;  // of that thread
  std::binary_semaphore begun{0}, goes_on{0};
};

}  // namespace weir::test
