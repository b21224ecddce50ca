// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a protocol of a few threads in every order of their steps that takes up to three preemptions, with store
// buffers. The protocol's own headers and sources are compiled for it on instrumented primitives: it includes
// weir/spi/sync.hpp, and here that is instrumented/weir/spi/sync.hpp. A whole test:
//
//   #include "explore.hpp"
//   #include "weir/spi/sync.hpp"
//
//   struct Mailbox {                                    // the protocol, usually a file of the library
//     sync::Atomic<bool> full{false};
//     sync::Plain<int> letter{0};                         // ordered by the others; an int outside of the explorer
//   };
//
//   TEST(Mailboxes, HandOver) {
//     EXPECT_TRUE(explore::holds([](explore::Scene& scene) {        // made anew for every run
//       auto& box = scene.make<Mailbox>();
//       scene.name(box.full, "full");                                // optional, for the trace
//       scene.thread([&] {                                           // T0
//         box.letter = 1;
//         box.full.store(true, std::memory_order_release);
//       });
//       scene.thread([&] {                                           // T1
//         for (unsigned i = 0; !box.full.load(std::memory_order_acquire); ++i) sync::pause(i);
//         explore::require(box.letter == 1, "the letter is the one that was sent");
//       });
//       scene.finally([&] { explore::require(box.full, "the box is full"); });
//     }));
//   }
//
// Bodies must do the same whenever they see the same: no time, no random numbers, no thread-local state, no address
// that decides anything. The story has returned when they run, so they capture its own variables by value, and what it
// has from `make` by reference. They use `require` and no assertions of GoogleTest. Data of the protocol that is neither
// Atomic nor Plain is not watched, and must not be raced on. What a run deletes stays where it is until the run is
// over, so an access to an instrumented object in it is found; what it leaves is a leak.
//
// docs/testing.md says what is explored, what not, and how a failure is replayed.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "options.hpp"
#include "plain.hpp"
#include "scene.hpp"

namespace weir::explore {

using Story = std::function<void(Scene&)>;

struct Result {
  Fault fault = Fault::none;
  std::string message;
  std::string schedule;      ///< for WEIR_EXPLORE_REPLAY
  std::string trace;         ///< the steps of that schedule, one a line
  unsigned preemptions = 0;  ///< of that schedule, and old values: no other that fails has fewer
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  std::uint64_t states = 0;  ///< where there was something to choose
};

/// Try all schedules until one fails.
[[nodiscard]] Result search(const Story& story, const Options& options = {});

/// Whether no schedule fails; says what failed, with its schedule and trace.
[[nodiscard]] testing::AssertionResult holds(const Story& story, const Options& options = {});
/// Whether a schedule fails in this way. For protocols that are known to be broken.
[[nodiscard]] testing::AssertionResult finds(Fault fault, const Story& story, const Options& options = {});

/// In a thread of a scene, or in its `finally`: fail the run unless `good`.
void require(bool good, const char* what, Where where = Where::here());

/// In a thread of a scene: fork the process, with the handlers of what the scene has made since forget_forks(). Both
/// outcomes are tried: in the parent this returns false, and in the child true. Memory that a child leaves is no fault,
/// because threads that stay in the parent had some of it.
bool fork(Where where = Where::here());
/// Forget what other runs have made.
void forget_forks() noexcept;

}  // namespace weir::explore
