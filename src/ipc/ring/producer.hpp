// SPDX-License-Identifier: Apache-2.0
#pragma once
// A ring and its lock: slots, connections, and the schedule between them.

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/reports_later.hpp"
#include "ipc/channel/deadline.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/ring/schedule.hpp"
#include "ipc/ring/slots.hpp"
#include "weir/ring.hpp"

namespace weir::detail::ring {

/// Frames wait here until every consumer has been sent them; a consumer is sent a frame when it has room. The thread
/// that publishes sends what can be sent at once, and the one that attends to the connections sends the rest.
class Producer final : public channel::LinkObserver, public std::enable_shared_from_this<Producer> {
 public:
  /// `options` have been checked.
  Producer(MemoryResource& resource, ipc::RingOptions options);

  std::uint64_t add(spi::StrangerFd& socket);
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
    Buffer buffer;
    std::vector<std::byte> payload;  // as it is sent
  };
  using Line = std::shared_ptr<channel::Link>;
  using Plan = Schedule<Waiting, Line>;
  /// What is left to do without the lock.
  struct After {
    After() = default;
    After(const After&) = delete;
    After& operator=(const After&) = delete;
    ~After();
    ReportsLater later;  // ends last
    std::vector<Plan::Waiting> ended;
    std::exception_ptr failure;
    Line short_of;  // serving this one was short of something, so all are to be served again
  };
  class Wire;

  void link_changed() noexcept override;
  void check(const char* operation) const;
  void check(const ipc::Parcel& frame) const;
  /// The frames of a call that publishes, whose stream comes after all uses of them.
  struct Ordered {
    const Stream& stream;
    std::uint64_t first;
  };
  void serve_all(const Ordered* ordered, After& after) noexcept;
  [[nodiscard]] bool drop_one();
  [[noreturn]] void refuse_slot() const;

  const ipc::RingOptions options_;
  const std::shared_ptr<Slots> slots_;
  const std::uint32_t process_;

  mutable std::mutex serving_;  // before the locks of the links and of the slots
  Plan plan_;
  bool closed_ = false;
  bool short_ = false;  // the last service was, which has been reported
};

}  // namespace weir::detail::ring
