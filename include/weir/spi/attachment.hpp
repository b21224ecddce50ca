// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a resource keeps beside a stream and finds again through the stream itself: without a hash, and never for
// another stream that got the same native handle. A pool's per-stream shard is one.

#include <atomic>
#include <cstdint>

#include "weir/fwd.hpp"

namespace weir::spi {

/// One object of one owner beside one stream. The record lives as long as the stream and is used again when it is
/// detached; the object is its owner's.
struct Attachment {
  struct Progress {
    std::uint64_t outside;  ///< a value that covers what others put on the stream before; 0 when nobody does
    std::uint64_t over;     ///< nothing up to this value can touch memory any more
  };
  static constexpr std::uint64_t detached = 0;
  static constexpr std::uint64_t kept = ~std::uint64_t{0};
  /// Called when the last count of the stream is about to go, under the lock of all attachments. May take the owner's
  /// locks; must not ask the driver or drop a count of any stream. Returns `detached`; or `kept` when the stream
  /// has gained a count meanwhile (retain), or has to be looked at once more; or a value of the stream, to be asked
  /// again after it.
  using Unused = std::uint64_t (*)(void* object, const Progress& progress) noexcept;

  std::atomic<const void*> owner{nullptr};  ///< null while detached
  void* object = nullptr;
  Unused unused = nullptr;
  Attachment* next = nullptr;
};

/// While one exists, no stream with attachments ends.
class AttachmentLock {
 public:
  AttachmentLock() noexcept;
  ~AttachmentLock();
  AttachmentLock(const AttachmentLock&) = delete;
  AttachmentLock& operator=(const AttachmentLock&) = delete;

  /// Forget what `owner` attached to `stream`.
  void detach(StreamState& stream, const void* owner) noexcept;
};

}  // namespace weir::spi
