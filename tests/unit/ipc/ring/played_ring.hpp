// SPDX-License-Identifier: Apache-2.0
#pragma once
// The slots of a played ring, and its connections. Packets wait in queues; the halves of the channels are the real
// ones.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "ipc/channel/borrower.hpp"
#include "ipc/channel/lender.hpp"
#include "ipc/ring/schedule.hpp"

namespace weir::test::played_rings {

namespace channel = detail::channel;

inline constexpr std::size_t per_consumer = 2;
inline constexpr std::size_t most_consumers = 3;
inline constexpr std::size_t slots = per_consumer * most_consumers + 1;

/// A place for a frame. It is free when nobody keeps a use of it.
struct Slot {
  bool used = false;
  bool lost = false;        // the work on the frame will never be complete
  std::uint64_t frame = 0;  // that was filled in last
  int readers = 0;          // living consumers that have it
};
struct Use {
  explicit Use(Slot& of) : slot(of) {
    slot.used = true;
    slot.lost = false;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { slot.used = false; }
  Slot& slot;
};
struct Frame {
  std::shared_ptr<Use> use;
  std::vector<std::byte> payload;
};

/// Memory as a consumer knows it.
struct Ring {
  [[nodiscard]] static std::uint64_t size() noexcept { return slots; }
};

/// A connection, both ends of it.
struct Line {
  explicit Line(std::uint32_t ahead) : borrower(ahead) { lender.open_window(ahead); }

  channel::Lender<std::shared_ptr<Use>> lender;
  bool removed = false, over = false;  // as the producer sees it

  channel::Borrower<Ring> borrower;
  std::deque<std::vector<std::byte>> packets, returns;
  struct Held {
    std::uint64_t number, offset;
    std::vector<std::byte> payload;
  };
  std::deque<Held> arrived, held;
  bool greeted = false, lives = true;
  std::uint64_t first = 0, expected = 0, received = 0, missed = 0;
};
using LinePtr = std::shared_ptr<Line>;
using Schedule = detail::ring::Schedule<Frame, LinePtr>;

}  // namespace weir::test::played_rings
