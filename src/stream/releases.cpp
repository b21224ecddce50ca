// SPDX-License-Identifier: Apache-2.0
#include "stream/releases.hpp"

#include <new>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "stream/device_queues.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

class FunctionRelease final : public Release {
 public:
  FunctionRelease(const std::vector<spi::Point>& after, std::function<void()> action, Unknown unknown)
      : action_(std::move(action)) {
    if (unknown == Unknown::skip) points().give_up_on_unknown();
    points().entries().reserve(after.size());
    for (const spi::Point& point : after) points().add(*point.stream, point.value, spi::Points::How::keep);
  }

 private:
  void run() noexcept override {
    action_();
    delete this;
  }
  std::function<void()> action_;
};

class SegmentRelease final : public Release {
 public:
  SegmentRelease(spi::Segment& segment, spi::StreamState& stream, std::uint64_t value) : segment_(segment) {
    points().add(stream, value, spi::Points::How::keep);
  }

 private:
  void run() noexcept override {
    give_back(segment_);
    delete this;
  }
  spi::Segment& segment_;
};

// For memory that its resource does not count any more.
constinit DeviceQueues left_queues;

const ForkStep left_queues_step(5, [](spi::ForkMoment moment) noexcept { left_queues.fork(moment); });

}  // namespace

void run_after(ReleaseQueue& queue, std::vector<spi::Point> points, std::function<void()> action, Unknown unknown) {
  std::erase_if(points, [](const spi::Point& point) { return point.stream->finished(point.value); });
  if (points.empty()) return action();
  queue.add(*new FunctionRelease(points, std::move(action), unknown));
}

void run_soon(ReleaseQueue& queue, std::function<void()> action) {
  queue.add(*new FunctionRelease({}, std::move(action), Unknown::wait));
}

void release_after(spi::Ref<spi::Segment> segment, spi::StreamState& stream, std::uint64_t value) noexcept {
  spi::Segment* const left = segment.detach();  // leaked if it cannot be handed over
  try {
    left_queues.of(*left->device).add(*new SegmentRelease(*left, stream, value));
  } catch (const std::exception& error) {
    report_leak(*left->device, left->size, error.what());
  }
}

void drain_left(const spi::DeviceState& device) { left_queues.of(device).drain(); }

void give_back(spi::Segment& segment) noexcept {
  if (!segment.device->inherited) return segment.release();
  segment.lease.reset();  // nothing else, because the memory belongs to the parent's driver
}

void report_leak(const spi::DeviceState& device, std::size_t bytes, const char* why) noexcept {
  try {
    const auto message = std::to_string(bytes) + " bytes of " + device.describe() +
                         " are leaked, because their last use could not be waited for: " + why;
    report({{}, "release of memory", message});
  } catch (const std::bad_alloc&) {
    report({make_error_code(std::errc::not_enough_memory), "release of memory",
            "memory is leaked: std::bad_alloc while its last use was to be waited for"});
  }
}

}  // namespace weir::detail
