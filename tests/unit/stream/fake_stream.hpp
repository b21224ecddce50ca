// SPDX-License-Identifier: Apache-2.0
#pragma once
// A back half that does what the test's hand tells it: it logs what the front half submits, and completes, refuses or
// loses on command.

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::test {

class FakeStream final : public spi::StreamState {
 public:
  explicit FakeStream(spi::DeviceState& device = host_device().state()) : StreamState(device) {}

  struct Behaviour {
    bool calls_natively = false;
    bool waits_natively = false;
    bool stores_natively = false;
    bool foreign = false;
    std::function<void()> on_end = {};
    std::function<void()> on_waits_natively = {};
    std::function<void()> on_poll = {};
    std::function<void()> on_wait = {};
    std::function<void()> on_mark = {};
    std::function<void()> on_store = {};
  } behaviour;  // set before use

  /// Everything submitted so far: "fill 3", "wait 4", "mark 5", "flush".
  std::vector<std::string> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  /// Return the stores that were submitted so far. Nobody carries them out.
  std::vector<spi::StoreOp> stores() {
    const std::lock_guard lock(mutex_);
    return stores_;
  }
  /// Block until the log has `count` lines.
  void await_lines(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return log_.size() >= count; });
  }
  /// The device got as far as `value`.
  void finish(std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    finished_ = value;
    changed_.notify_all();
  }
  /// It did, and nobody needs to ask.
  void finish_unasked(std::uint64_t value) noexcept { complete(value); }
  /// The next submission throws, or the one so many later.
  void refuse_next(int later = 0) { refuse_ = 1 + later; }
  /// What this stream waits for will never be, and the device will go on.
  void become_unready() { lose_unready(std::make_exception_ptr(Error(Errc::peer_gone, "gone by hand"))); }
  /// Every question from now on throws.
  void break_device() {
    const std::lock_guard lock(mutex_);
    broken_ = std::make_exception_ptr(Error(Errc::device_lost, "broken by hand"));
    changed_.notify_all();
  }
  /// As a back half does that finds the device gone.
  void lose_by_hand() noexcept { lose(std::make_exception_ptr(Error(Errc::device_lost, "lost by hand"))); }
  [[nodiscard]] bool overlapped() const { return overlapped_; }

  static spi::Op fill() { return spi::FillOp{{}, 1, 0, 1}; }
  static spi::Op call(std::function<void()> function) { return spi::CallOp{std::move(function)}; }
  spi::Op wait_op(std::uint64_t value) { return spi::WaitOp{spi::Kept(*this), value}; }
  /// A wait for the memory that work here uses.
  spi::Op space_op(std::uint64_t value) { return spi::WaitOp{spi::Kept(*this), value, true}; }

 private:
  ~FakeStream() override {
    if (behaviour.on_end) behaviour.on_end();
  }

  // One thread at a time is in here, or the front half broke its promise.
  void submit(const std::string& line) {
    if (inside_.exchange(true)) overlapped_ = true;
    const bool refuse = refuse_ != 0 && --refuse_ == 0;
    if (!refuse) {
      const std::lock_guard lock(mutex_);
      log_.push_back(line);
      changed_.notify_all();
    }
    inside_ = false;
    if (refuse) throw Error(Errc::unsupported, "refused by hand");
  }
  static std::string line(const char* what, std::uint64_t value) {
    return what + std::string(" ") + std::to_string(value);
  }

  void do_copy(const spi::CopyOp&, std::uint64_t value) override { submit(line("copy", value)); }
  void do_fill(const spi::FillOp&, std::uint64_t value) override { submit(line("fill", value)); }
  void do_copy_region(const spi::RegionOp&, std::uint64_t value) override { submit(line("copy region", value)); }
  void do_call(std::function<void()>& function, std::uint64_t value) override {
    submit(line("call", value));
    std::exchange(function, nullptr)();
  }
  void do_store(const spi::StoreOp& op, std::uint64_t value) override {
    if (behaviour.on_store) behaviour.on_store();
    submit(line("store", value));
    const std::lock_guard lock(mutex_);
    stores_.push_back(op);
  }
  void do_wait(const spi::WaitOp& op, std::uint64_t) override { submit(line("wait", op.value)); }
  void do_mark(std::uint64_t value) override {
    if (behaviour.on_mark) behaviour.on_mark();
    submit(line("mark", value));
  }
  void do_flush() override { submit("flush"); }

  std::uint64_t do_poll() override {
    if (behaviour.on_poll) behaviour.on_poll();
    const std::lock_guard lock(mutex_);
    return known();
  }
  WaitStatus do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) override {
    if (behaviour.on_wait) behaviour.on_wait();
    std::unique_lock lock(mutex_);
    const auto there = [&] { return known() >= value; };
    if (timeout.count() < 0) {
      changed_.wait(lock, there);
      return WaitStatus::ready;
    }
    return changed_.wait_for(lock, timeout, there) ? WaitStatus::ready : WaitStatus::timeout;
  }
  [[nodiscard]] std::uint64_t known() const {
    if (broken_) std::rethrow_exception(broken_);
    return finished_;
  }

  bool calls_natively() const noexcept override { return behaviour.calls_natively; }
  bool stores_natively() const noexcept override { return behaviour.stores_natively; }
  bool waits_natively(const spi::StreamState& other) const noexcept override {
    if (behaviour.on_waits_natively) behaviour.on_waits_natively();
    [[maybe_unused]] const volatile auto id = other.id();  // real ones look at it, too
    return behaviour.waits_natively;
  }
  bool foreign() const noexcept override { return behaviour.foreign; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> log_;
  std::vector<spi::StoreOp> stores_;
  std::uint64_t finished_ = 0;
  std::exception_ptr broken_;  // made beforehand: it is thrown where there is no memory, too
  std::atomic<int> refuse_{0};  // counts down to the submission that throws
  std::atomic<bool> inside_{false}, overlapped_{false};
};

/// Owner of a fake, with its type.
class Fake {
 public:
  explicit Fake(FakeStream::Behaviour behaviour = {}) : state_(new FakeStream) {
    state_->behaviour = std::move(behaviour);
    owner_ = spi::Ref<spi::StreamState>::adopt(state_);
  }
  FakeStream* operator->() const { return state_; }

 private:
  FakeStream* state_;
  spi::Ref<spi::StreamState> owner_;
};

}  // namespace weir::test
