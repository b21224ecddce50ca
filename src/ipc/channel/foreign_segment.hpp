// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ipc/channel/imported.hpp"
#include "ipc/opened_once.hpp"
#include "ipc/wire.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail::channel {

/// A segment of the peer. Opened when the first buffer of it is received.
struct ForeignSegment {
  /// If `refusal` is not null, the opening throws it.
  ForeignSegment(WireDescriptor described, std::exception_ptr refusal)
      : wire(std::move(described)), memory_(std::vector<spi::StrangerFd>(wire.memory_files()), std::move(refusal)) {}
  /// Take over the files of the memory. Called once, before anybody else has the object.
  void keep(std::span<spi::StrangerFd> files) noexcept { memory_.keep(files); }
  /// Return the memory, opened on `preferred` if nobody has opened it yet. It came over `socket`. Throws, each time, what
  /// the opening threw.
  [[nodiscard]] OpenSegment open(spi::DeviceState& preferred, int socket);

  const WireDescriptor wire;

 private:
  std::mutex opening_;
  OpenedOnce<spi::Ref<spi::Segment>> memory_;
  std::optional<OpenSegment> open_;  // the same once it counts, which needs memory and can be done again
};

/// What a Borrower keeps for a segment.
struct ForeignMemory {
  std::shared_ptr<ForeignSegment> segment;
  [[nodiscard]] std::uint64_t size() const noexcept { return segment->wire.segment_size; }
};

}  // namespace weir::detail::channel
