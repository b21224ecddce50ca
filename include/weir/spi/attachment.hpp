// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a resource keeps beside a stream and finds again through the stream itself: without a hash, and never for
// another stream that got the same native handle. A pool's shard is one, and so is each thread's cache of it.

#include <cstdint>

#include "weir/fwd.hpp"
#include "weir/spi/sync.hpp"

namespace weir::spi {

/// What an owner of attachments is told when a stream ends. Called under the lock of all attachments. May take the owner's
/// locks; must not ask a driver, and must not drop a use of any stream.
struct AttachmentEvents {
  enum class Answer { done, more, gone };
  /// Nobody names the stream any more. An object that has live memory there holds a use of memory from now on, and before
  /// it gives such memory back it calls mark_forgotten(). Called each time that this comes about.
  void (*forgotten)(void* object) noexcept;
  /// Nobody uses the stream any more; its last value is `last`.
  void (*closed)(void* object, std::uint64_t last) noexcept;
  /// That value has been passed. `more`: there is more to do than one call should, it is called again. `gone`: the
  /// object has ended, and is detached.
  Answer (*over)(void* object) noexcept;
};

/// One object of one owner beside one stream. The record lives as long as the stream and is used again when it is
/// detached; the object is its owner's.
struct Attachment {
  sync::Atomic<const void*> owner{nullptr};  ///< null while detached; set last
  sync::Plain<sync::ThreadId> thread = 0;    ///< for whom it is; 0 for everybody
  sync::Plain<void*> object = nullptr;
  sync::Plain<const AttachmentEvents*> events = nullptr;  ///< null: the owner has another one that is told
  sync::Plain<Attachment*> next = nullptr;
};

/// While one exists, no stream with attachments ends, and nobody else attaches or detaches.
class AttachmentLock {
 public:
  AttachmentLock() noexcept;
  ~AttachmentLock();
  AttachmentLock(const AttachmentLock&) = delete;
  AttachmentLock& operator=(const AttachmentLock&) = delete;

  /// Forget everything that `owner` attached to `stream`.
  void detach(StreamState& stream, const void* owner) noexcept;
};

}  // namespace weir::spi
