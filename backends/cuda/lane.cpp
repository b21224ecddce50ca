// SPDX-License-Identifier: Apache-2.0
#include "lane.hpp"

#include <algorithm>
#include <utility>

#include "naming.hpp"
#include "stream.hpp"

namespace weir::cuda {

Lane::Lane(StreamKey of, Stream timeline, const Stream* theirs) : key(of), own(std::move(timeline)) {
  if (!theirs) {
    direct_ = static_cast<GpuStream*>(&own.state());
  } else {
    app_ = &theirs->state();
    app_->retain_memory();
  }
}

Lane::~Lane() {
  if (app_) app_->release_unasked();
}

Stream Lane::app() const noexcept {
  (void)app_->try_retain();
  return Stream(spi::Ref<spi::StreamState>::adopt(app_));
}

void Lane::take_over(bool spares_captures) {
  if (direct_) {
    if (!direct_->app()->is_ahead()) [[likely]]
      return;
    const Naming naming(direct_, spares_captures);
    const auto follow = [this](std::uint64_t) { const GpuStream::Turn turn(*direct_); };
    (void)direct_->put(spi::NativeOp{follow});
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (own.state().issued() <= covered_) return;
  const Event point = own.record();
  app().wait(point);
  covered_ = std::max(covered_, point.value());
}

void Lane::hand_back() {
  if (direct_) return touch();
  const std::scoped_lock lock(mutex_);
  const Event point = app().record();
  const auto value = own.state().put(spi::WaitOp{spi::Kept(*point.timeline()), point.value()});
  // The wait that was just put on `own` is for the application's own past, so its stream need not wait for it. But if
  // the point is complete already, put() may have added nothing, and `value` may be that of another operation.
  if (value == covered_ + 1 && !point.done()) covered_ = value;
}

void Lane::handed_back(bool always) noexcept {
  if (!direct_ || (!direct_->app()->marks_now() && !always)) return;
  try {
    (void)direct_->mark();
  } catch (const std::exception&) {  // then whoever wants to know gets a point of the whole context
  }
}

bool Lane::can_end() noexcept {
  if (!direct_) return true;
  try {
    (void)direct_->mark();
    return true;
  } catch (const std::exception&) {
    return direct_->lost();
  }
}

void Lane::used(spi::Block& block) {
  if (direct_) {
    touch();
    return block.used(*direct_, direct_->position());  // if the driver refuses the point now, anybody can make it later
  }
  hand_back();  // by a point of weir's own stream, because the application's context may end with all its events
  block.used(own.state(), own.state().mark());
}

void Lane::touch() noexcept {
  if (direct_) direct_->app()->unmarked.add();
}

}  // namespace weir::cuda
