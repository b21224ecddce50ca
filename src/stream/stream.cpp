// SPDX-License-Identifier: Apache-2.0
#include "weir/stream.hpp"

#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {

Event::Event(spi::Ref<spi::StreamState> timeline, std::uint64_t value) noexcept
    : timeline_(std::move(timeline)), value_(value) {}

bool Event::done() const { return !timeline_ || timeline_->reached(value_); }

void Event::wait() const {
  if (wait(std::chrono::nanoseconds{-1}) == WaitStatus::lost) timeline_->throw_if_lost();
}

WaitStatus Event::wait(std::chrono::nanoseconds timeout) const {
  return timeline_ ? timeline_->wait_for(value_, timeout) : WaitStatus::ready;
}

Stream::Stream(const Device& device) {
  auto& state = device.state();
  state.check_process();
  state_ = spi::Ref<spi::StreamState>::adopt(state.backend->streams->create(state));
}

Stream::Stream(spi::Ref<spi::StreamState> state) noexcept : state_(std::move(state)) {}

void Stream::throw_moved_from() { throw Error(Errc::closed, "this Stream was moved from"); }

Device Stream::device() const { return Device(state().device()); }
std::uint64_t Stream::id() const { return state().id(); }

Event Stream::record() const { return {state_, state().mark()}; }

void Stream::wait(const Event& event) const {
  auto& own = state();
  if (auto* timeline = event.timeline()) {
    own.put(spi::WaitOp{spi::Kept(*timeline), event.value()});
  }
}

void Stream::synchronize() const { record().wait(); }
WaitStatus Stream::synchronize(std::chrono::nanoseconds timeout) const {
  const auto status = record().wait(timeout);
  if (status == WaitStatus::lost) state().throw_if_lost();
  return status;
}
bool Stream::done() const { return record().done(); }
void Stream::flush() const { state().flush(); }

void Stream::call(std::function<void()> function) const {
  if (!function) throw Error(Errc::invalid_argument, "Stream::call needs a function");
  state().put(spi::CallOp{std::move(function)});
}

}  // namespace weir
