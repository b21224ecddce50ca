// SPDX-License-Identifier: Apache-2.0
#include "things.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <latch>
#include <thread>
#include <utility>

#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/adaptors/statistics.hpp"
#include "weir/adaptors/tracking.hpp"
#include "weir/spi/view.hpp"

namespace weir::test {
namespace {

constexpr std::size_t limit = std::size_t{1} << 30;

}  // namespace

std::vector<ResourcePtr> resources_of(const Device& device) {
  std::vector<ResourcePtr> all;
  for (const KindInfo& info : device.kinds()) {
    all.push_back(make_resource(device, info.kind));
    if (info.exportable) all.push_back(make_resource(device, info.kind, {.exportable = true}));
  }
  all.push_back(make_tracking(make_statistics(make_limiting(make_debug(make_resource(device)), limit)),
                              {.stack_depth = 4, .report_leaks = false}));
  return all;
}

Things::Things(const Device& of) : device(of), resources(resources_of(of)) {
  for (int i = 0; i < 3; ++i) streams.emplace_back(device);
  if (device.backend() != "host") {
    if (auto* const other = spi::viewer_of(device.state())) viewer.emplace(Device(*other));
  }
  work();
}

void Things::work() {
  for (const ResourcePtr& resource : resources) {
    Buffer first = resource->allocate(small, streams[0]);
    first.fill(std::byte{7}, streams[0]);
    streams[1].wait(streams[0].record());
    Buffer second = first.copy_to(streams[1]);
    Buffer closed = second.copy_to(streams[1]);
    events.push_back(streams[1].record());
    if (resource->is_host_accessible()) {
      tensors.push_back(second.view(f32, {static_cast<std::int64_t>(small / 4)}).to_dlpack(streams[1]));
    }
    if (viewer && resource->is_exportable()) {
      viewer->wait(streams[1].record());
      second.copy_from(first, *viewer);
      streams[1].wait(viewer->record());
    }
    closed.close(streams[0]);
    buffers.push_back(first.slice(0, small / 2));
    buffers.push_back(std::move(first));
    buffers.push_back(std::move(second));
  }
}

void Things::hold(const Event& event) {
  streams[2].wait(event);
  for (const ResourcePtr& resource : resources) {
    Buffer kept = resource->allocate(small, streams[0]);
    Buffer closed = resource->allocate(small, streams[0]);
    streams[2].wait(streams[0].record());
    closed.fill(std::byte{1}, streams[2]);
    kept.copy_from(closed, streams[2]);
    closed.close();
    buffers.push_back(std::move(kept));
  }
  for (const KindInfo& info : device.kinds()) {  // and of resources that end now
    make_resource(device, info.kind)->allocate(small, streams[2]).fill(std::byte{1}, streams[2]);
  }
  streams[2].call([owned = std::make_shared<std::string>("what a function owns")] { (void)owned->size(); });
  events.push_back(streams[2].record());
}

Latch::Latch() {
  auto& begun = *new std::latch(1);
  stream.call([opened = promise.get_future().share(), &begun] {
    begun.count_down();
    opened.wait();
  });
  event = stream.record();
  begun.wait();  // a fork must find the function under way, not still to come
}

void go_on(const std::function<void()>& work) {
  try {
    for (;;) work();
  } catch (const Error& error) {
    if (error.code() != Errc::device_lost) throw;
  }
  for (;;) pause();
}

void keep_working(const Device& device, int count) {
  auto& begun = *new std::latch(count);
  for (int i = 0; i < count; ++i) {
    std::thread([device, &begun] {
      std::uint32_t rounds = 0;
      go_on([&] {
        Things things(device);
        things.work();
        if (rounds++ == 0) begun.count_down();
        if (rounds % 4 == 0) things.streams[1].synchronize();  // or the device has no memory left when it is slow
      });
    }).detach();
  }
  begun.wait();
}

void say_done() {
  std::puts("done");
  std::fflush(stdout);
}

int run_case(std::span<const Case> cases, int count, char** arguments) {
  for (const Case& each : cases) {
    if (count < 2 || std::strcmp(each.name, arguments[1]) != 0) continue;
    each.run();
    say_done();
    return 0;
  }
  return 2;
}

}  // namespace weir::test
