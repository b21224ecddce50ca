// SPDX-License-Identifier: Apache-2.0
#pragma once
// The published frames of a ring, and who has been sent which of them.

#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ipc/channel/deadline.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/ring/slots.hpp"
#include "weir/ring.hpp"

namespace weir::detail::ring {

/// Frames wait here until every consumer has been sent them; a consumer is sent a frame when it has room. The thread
/// that publishes sends what can be sent at once, and the one that attends to the connections sends the rest.
class Producer final : public channel::LinkObserver, public std::enable_shared_from_this<Producer> {
 public:
  /// `options` have been checked.
  Producer(MemoryResource& resource, ipc::RingOptions options);

  std::uint64_t add(spi::UniqueFd socket);
  void remove(std::uint64_t id);
  [[nodiscard]] Buffer acquire(const Stream& stream, const channel::Deadline& deadline);
  std::uint64_t publish(std::span<ipc::Parcel> frames, const Stream& stream);
  bool drain(const channel::Deadline& deadline);
  void close() noexcept;
  /// Return whether this is a forked child of the ring's process.
  [[nodiscard]] bool inherited() const noexcept;
  [[nodiscard]] const ipc::RingOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::size_t slot_bytes() const noexcept { return slots_->bytes(); }
  [[nodiscard]] ipc::RingStats stats() const;

 private:
  struct Waiting {
    std::uint64_t sequence;
    Buffer buffer;
    std::vector<std::byte> payload;  // as it is sent
  };
  struct Consumer {
    std::uint64_t id;
    std::shared_ptr<channel::Link> link;
    std::uint64_t next;  // the first frame that it has not been sent
    std::uint64_t missed = 0;
    bool greeted = false, left = false;
  };
  /// What is left to do without the lock.
  struct After {
    After() = default;
    After(const After&) = delete;
    After& operator=(const After&) = delete;
    ~After();
    std::vector<Waiting> ended;
    std::exception_ptr failure;
  };

  void link_changed() noexcept override;
  void check(const char* operation) const;
  void check(const ipc::Parcel& frame) const;
  void serve_all(const Stream* stream, After& after);
  void serve(Consumer& consumer, const Stream* stream);
  [[nodiscard]] bool greet(Consumer& consumer);
  [[nodiscard]] std::size_t send(Consumer& consumer, std::size_t most, const Stream* stream);
  void forget(After& after);
  [[nodiscard]] bool drop_one();
  [[nodiscard]] std::deque<Waiting>::const_iterator find(std::uint64_t sequence) const;
  [[noreturn]] void refuse_slot() const;

  const ipc::RingOptions options_;
  const std::shared_ptr<Slots> slots_;
  const std::uint32_t process_;

  mutable std::mutex serving_;   // before the locks of the links and of the slots
  std::deque<Waiting> waiting_;  // by sequence
  std::list<Consumer> consumers_;
  std::uint64_t next_ = 0, last_id_ = 0, dropped_ = 0;
  bool closed_ = false;
};

}  // namespace weir::detail::ring
