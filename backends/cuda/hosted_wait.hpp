// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waits of the device that a thread of the library ends, because no CUDA driver can be asked about what they are for.
// That may never come, because another process owes it. The device then goes on all the same, so the streams whose work
// depends on it are lost before.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "value_gates.hpp"
#include "weir/spi/kept.hpp"

namespace weir::cuda {

class Gpu;
class GpuStream;

/// One such wait. It holds the device back from its beginning until `end` or `cancel`, whichever comes first.
class HostedWait {
  struct Dependent {
    spi::Kept stream;
    bool for_space;
  };

 public:
  explicit HostedWait(Gpu& gpu);
  HostedWait(const HostedWait&) = delete;
  HostedWait& operator=(const HostedWait&) = delete;
  ~HostedWait() = default;

  /// Return the word for which the device waits. Without one, a host function calls `wait`.
  [[nodiscard]] const std::optional<ValueGates::Gate>& gate() const noexcept { return gate_; }
  /// Block until the device may go on. By then, no stream depends on this any more.
  void wait();
  /// The same for some time. Return whether it may.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time);

  /// Let the device go on. With an error, what was waited for will never come: each stream whose work depends on it is
  /// lost first.
  void end(const std::exception_ptr& error) noexcept;
  /// Return whether the device goes on already.
  [[nodiscard]] bool over() const noexcept;
  /// Let the device go on, because the driver refused to wait.
  void cancel() noexcept { end(nullptr); }

 private:
  friend class Dependences;
  void open() noexcept;

  Gpu& gpu_;
  std::optional<ValueGates::Gate> gate_;
  std::mutex mutex_;  // of passed_
  std::condition_variable changed_;
  bool passed_ = false;

  // With the lists of Dependences, under one lock of all of them:
  bool over_ = false;
  std::exception_ptr error_;
  std::list<Dependent> dependents_;
};

/// The hosted waits on which work of one stream depends: its own waits, and those of streams for which it waits on the
/// device.
class Dependences {
  struct One {
    std::shared_ptr<HostedWait> wait;
    std::uint64_t from;  // the first value of the stream that depends on it
    bool for_space;      // only to get memory: the stream is not lost with it
  };

 public:
  /// What will be added. It is made before the driver is asked to wait, because nothing may fail afterwards.
  class Prepared {
   public:
    Prepared() = default;

   private:
    friend class Dependences;
    void add(GpuStream& stream, std::shared_ptr<HostedWait> wait, bool for_space);
    std::list<One> ones_;
    std::list<HostedWait::Dependent> streams_;
  };

  /// Return whether there are any; costs one load.
  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }
  /// Return whether points up to `value` depend on any.
  [[nodiscard]] bool reach(std::uint64_t value) const noexcept { return first_up_to(value) != nullptr; }
  /// Block until points up to `value` depend on none, or until this much time has passed. Return whether they do.
  [[nodiscard]] bool still_after(std::chrono::milliseconds time, std::uint64_t value) const;
  /// Prepare a dependence of `stream` on `wait`.
  [[nodiscard]] static Prepared prepare(GpuStream& stream, std::shared_ptr<HostedWait> wait);
  /// Prepare a dependence of `stream` on everything on which these points up to `value` depend. Throws what ended one
  /// of these waits, if its streams are only about to be lost, unless it is `for_space`.
  [[nodiscard]] Prepared prepare_up_to(std::uint64_t value, GpuStream& stream, bool for_space);
  /// Add what was prepared, for `from` and all later values of this stream. Returns the error of a wait that has ended
  /// with one meanwhile.
  [[nodiscard]] std::exception_ptr add(Prepared prepared, std::uint64_t from) noexcept;

  /// See to it that this stream is among Gpu::followers() until let_go_of_place(), and then until it depends on
  /// nothing. Return false when there are as many as there may be.
  [[nodiscard]] bool take_place(Gpu& gpu) noexcept;
  void let_go_of_place(Gpu& gpu) noexcept;

 private:
  friend class HostedWait;
  [[nodiscard]] bool depends_on(const HostedWait& wait, bool for_space) const noexcept;
  [[nodiscard]] std::shared_ptr<HostedWait> first_up_to(std::uint64_t value) const noexcept;
  void leave_place(Gpu& gpu) noexcept;

  std::atomic<std::size_t> count_{0};
  std::list<One> ones_;
  bool counted_ = false;      // among Gpu::followers()
  bool holds_place_ = false;  // even if nothing is in the list
};

}  // namespace weir::cuda
