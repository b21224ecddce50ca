// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline with a device that the test plays, for protocols of streams. It ends itself, as all do.

#include <cstdint>
#include <functional>

#include "plain.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {

/// Of all timelines here.
spi::DeviceState& device();

class Timeline final : public spi::StreamState {
 public:
  enum class Kind { own, foreign };
  explicit Timeline(Kind kind = Kind::own) : StreamState(test::device()), foreign_(kind == Kind::foreign) {}

  /// Let a copy of no bytes be refused for want of memory, and each of one byte pass.
  static spi::CopyOp copy(std::size_t bytes) { return {{}, {}, bytes}; }

  /// The device has done what is marked up to this.
  void finish(std::uint64_t value) noexcept { done_.store(value, std::memory_order_release); }
  /// From now on it does at once what is marked.
  void finish_all() noexcept { finish(~std::uint64_t{0}); }
  /// An application's: put a kernel there beside the library, which runs until it is ended. What was marked before is done at
  /// once, what is marked later is not. The driver has a lock, so that calls for one stream come one after another.
  void start_kernel() noexcept { kernel_.fetch_or(1); }
  void end_kernel() noexcept {
    kernel_.fetch_and(0);
    done_.store(~std::uint64_t{0});
  }
  /// The application destroys the native stream.
  void end_native() noexcept { native_ended_.store(true); }
  /// Of the operations that the driver has taken.
  [[nodiscard]] std::uint64_t last_taken() const noexcept { return last_taken_; }
  /// The last value that the driver can be asked about.
  [[nodiscard]] std::uint64_t marked() const noexcept { return marked_.load(std::memory_order_acquire); }

 private:
  void do_copy(const spi::CopyOp& op, std::uint64_t value) override;
  void do_fill(const spi::FillOp&, std::uint64_t) override {}
  void do_copy_region(const spi::RegionOp&, std::uint64_t) override {}
  void do_mark(std::uint64_t value) override;
  void do_flush() override;
  std::uint64_t do_poll() override;
  WaitStatus do_wait_host(std::uint64_t value, std::chrono::nanoseconds) override;
  bool foreign() const noexcept override { return foreign_; }
  void do_close() noexcept override { native_ended_.store(true, std::memory_order_release); }

  void use_native(std::uint64_t value);

  const bool foreign_;
  explore::Section front_;  // the first group: one thread at a time
  sync::Plain<std::uint64_t> last_taken_ = 0;
  sync::Atomic<bool> native_ended_{false};
  sync::Atomic<std::uint64_t> kernel_{0};
  sync::Atomic<std::uint64_t> marked_{0}, done_{0};
};

/// Before each run with timelines: nothing of one that failed is left.
void begin_world();

}  // namespace weir::test
