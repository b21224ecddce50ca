// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that a reader got from a holder.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ipc/hold/messages.hpp"
#include "ipc/opened_once.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail::hold {

/// Whether memory has addresses of its own, or can only be joined with others'. Some backends make no difference.
enum class As : std::uint8_t { whole, part };

/// A segment of a set: what was told of it, and the memory once it is open. Its end in a forked child leaks memory that
/// belongs to the parent's driver.
class HeldMemory {
 public:
  HeldMemory(Bytes descriptor, spi::StrangerFd file)
      : descriptor_(descriptor.begin(), descriptor.end()), memory_(one(std::move(file))) {}
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;
  ~HeldMemory();
  /// Return how many bytes it has, as it is said.
  [[nodiscard]] std::size_t size() const;
  /// Return the memory, read-only, opened on `preferred` and as `as` says if nobody has opened it yet and that device
  /// can. Throws, each time, what the opening threw. `holder` is the socket over which it came.
  [[nodiscard]] const spi::Ref<spi::Segment>& open(spi::DeviceState& preferred, int holder, As as);
  [[nodiscard]] bool is_part() const noexcept { return is_part_; }  ///< whether it has no address of its own
  /// Return a segment with the memory of all `parts`, of which the first is this one: the same again for the same
  /// parts. Throws corrupt_descriptor if they cannot be joined.
  [[nodiscard]] const spi::Ref<spi::Segment>& joined(std::span<spi::Segment* const> parts);
  /// Let go of what joined() returned, and so of the other parts.
  void forget_joined() noexcept;

 private:
  static std::vector<spi::StrangerFd> one(spi::StrangerFd file) {
    std::vector<spi::StrangerFd> files;
    files.push_back(std::move(file));
    return files;
  }

  std::vector<std::byte> descriptor_;
  OpenedOnce<spi::Ref<spi::Segment>> memory_;
  bool is_part_ = false;
  std::vector<spi::Segment*> parts_;  // which are kept by what they were joined to
  spi::Ref<spi::Segment> joined_;
};

/// The file that keeps the memory of a set from being used again; without one where that needs none.
using SetLease = std::shared_ptr<spi::StrangerFd>;

/// Make a buffer over a whole segment. `lease` lives until its last owner is closed and all uses are complete.
[[nodiscard]] Buffer hold_buffer(spi::Ref<spi::Segment> segment, const Stream& stream, SetLease lease);

}  // namespace weir::detail::hold
