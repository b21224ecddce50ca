// SPDX-License-Identifier: Apache-2.0
#pragma once
// For tests of the explorer on programs of a few lines: short names, and the program that most faults can be shown on.

#include <atomic>

#include "explore.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {

using explore::Fault;
using explore::Scene;
inline constexpr auto relaxed = std::memory_order_relaxed;
inline constexpr auto acquire = std::memory_order_acquire;
inline constexpr auto release = std::memory_order_release;
inline constexpr auto acq_rel = std::memory_order_acq_rel;
inline constexpr auto seq_cst = std::memory_order_seq_cst;

struct Mailbox {
  sync::Atomic<bool> full{false};
  sync::Plain<int> letter{0};
};

/// One thread puts a letter into a mailbox, another waits for it. Right when `write` releases and `read` acquires.
inline explore::Story message(std::memory_order write, std::memory_order read) {
  return [=](Scene& scene) {
    auto& box = scene.make<Mailbox>();
    scene.name(box.letter, "letter");
    scene.thread([&box, write] {
      box.letter = 1;
      box.full.store(true, write);
    });
    scene.thread([&box, read] {
      for (unsigned i = 0; !box.full.load(read); ++i) sync::pause(i);
      explore::require(box.letter == 1, "the letter has arrived");
    });
  };
}

}  // namespace weir::test
