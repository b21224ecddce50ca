// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rest of a packet that came. This process may be short of memory while it applies one, and the peer cannot know
// that: it has said what it said. So the rest stays, and is applied later.

#include <optional>

#include "ipc/channel/messages.hpp"

namespace weir::detail::channel {

/// The messages of one packet that have not been applied. Refers to the packet's bytes.
class Unread {
 public:
  [[nodiscard]] bool empty() const noexcept { return !packet_; }
  void came(PacketReader packet) noexcept { packet_ = packet; }
  void forget() noexcept { packet_.reset(); }
  /// Call `apply` with each message. If that throws, the message and those behind it remain for the next call, so
  /// `apply` must have changed nothing when it throws for want of memory.
  template <class Apply>
  void apply(const Apply& apply) {
    while (packet_) {
      PacketReader ahead = *packet_;
      const auto message = ahead.next();
      if (message) apply(*message);
      packet_ = ahead;
      if (!message) forget();
    }
  }

 private:
  std::optional<PacketReader> packet_;
};

}  // namespace weir::detail::channel
