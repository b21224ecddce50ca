// SPDX-License-Identifier: Apache-2.0
#pragma once
// An attachment is what a resource keeps beside a stream and finds again through the stream itself. This needs no hash,
// and never finds what belongs to another stream that got the same native handle. A pool's shard is an attachment, and
// so is each thread's cache of that shard.

#include <cstdint>

#include "weir/fwd.hpp"
#include "weir/spi/sync.hpp"

namespace weir::spi {

/// Functions that tell an owner of attachments how its stream ends. They are called under the lock of all attachments.
/// They may take the owner's locks, but must not ask a driver and must not drop a use of any stream.
struct AttachmentEvents {
  /// What `over` found.
  enum class Answer {
    done,  ///< there is nothing more to do
    more,  ///< there is more to do than one call should do, so it is called again
    gone   ///< the object has ended, and is detached
  };
  /// Nobody names the stream any more. An object that has live memory there must take a use of memory now, and must
  /// call mark_forgotten() before it gives such memory back. Called each time that the stream is forgotten.
  void (*forgotten)(void* object) noexcept;
  /// Nobody uses the stream any more; its last value is `last`.
  void (*closed)(void* object, std::uint64_t last) noexcept;
  /// The value that `closed` was told has been passed.
  Answer (*over)(void* object) noexcept;
};

/// One object that one owner keeps beside one stream. The object belongs to the owner. The record of it lives as long
/// as the timeline, and is used again for another object once this one is detached.
struct Attachment {
  sync::Atomic<const void*> owner{nullptr};  ///< null while detached; set last
  sync::Plain<sync::ThreadId> thread = 0;    ///< the thread that the object is for; 0 for all
  sync::Plain<void*> object = nullptr;       ///< what attached() returns
  sync::Plain<const AttachmentEvents*> events = nullptr;  ///< null: another attachment of the owner is told
  sync::Plain<Attachment*> next = nullptr;                ///< of the same stream
};

/// The lock of all attachments. While a thread holds it, no stream with attachments ends, and no other thread attaches
/// or detaches anything.
class AttachmentLock {
 public:
  /// Take the lock.
  AttachmentLock() noexcept;
  /// Let the lock go.
  ~AttachmentLock();
  AttachmentLock(const AttachmentLock&) = delete;
  AttachmentLock& operator=(const AttachmentLock&) = delete;

  /// Detach everything that `owner` attached to `stream`.
  void detach(StreamState& stream, const void* owner) noexcept;
};

}  // namespace weir::spi
