// SPDX-License-Identifier: Apache-2.0
#include "weir/interop/pmr.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/error.hpp"
#include "weir/interop/buffer_table.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

ResourcePtr checked(ResourcePtr upstream) {
  if (!upstream) throw Error(Errc::invalid_argument, "PmrResource: upstream is null");
  if (upstream->is_host_accessible()) return upstream;
  const Device device = upstream->device();
  std::string kinds;
  for (const KindInfo& info : device.kinds()) {
    if (info.host_accessible) kinds += (kinds.empty() ? "" : ", ") + std::string(to_string(info.kind));
  }
  throw Error(Errc::unsupported, "PmrResource: the host cannot access memory of " + upstream->name() +
                                     "; it can access these kinds of " + device.state().describe() + ": " +
                                     (kinds.empty() ? "none" : kinds));
}

// Make a few host streams, so that threads do not meet on a single one. Only resources put work on them.
std::vector<Stream> make_lanes() {
  std::vector<Stream> lanes;
  const auto count = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  for (unsigned i = 0; i < count; ++i) lanes.emplace_back(host_device());
  return lanes;
}

std::size_t this_thread() noexcept {
  static std::atomic<std::size_t> last{0};
  thread_local const std::size_t number = last.fetch_add(1, std::memory_order_relaxed);
  return number;
}

std::size_t bytes_to_aligned(const std::byte* address, std::size_t alignment) noexcept {
  return (0 - reinterpret_cast<std::uintptr_t>(address)) & (alignment - 1);
}

}  // namespace

struct PmrResource::State {
  explicit State(ResourcePtr resource) : upstream(checked(std::move(resource))), lanes(make_lanes()) {}

  const ResourcePtr upstream;
  const std::vector<Stream> lanes;
  BufferTable buffers;
};

PmrResource::PmrResource(ResourcePtr upstream) : state_(std::make_unique<State>(std::move(upstream))) {}
PmrResource::~PmrResource() = default;

ResourcePtr PmrResource::upstream() const { return state_->upstream; }

void* PmrResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  const Stream& lane = state_->lanes[this_thread() % state_->lanes.size()];
  bytes = std::max<std::size_t>(bytes, 1);
  Buffer buffer = state_->upstream->allocate(bytes, lane, alignment);
  std::byte* address = buffer.host_data();
  if (bytes_to_aligned(address, alignment) != 0) {  // only its address for the device is aligned
    buffer = state_->upstream->allocate(bytes + alignment, lane);
    address = buffer.host_data() + bytes_to_aligned(buffer.host_data(), alignment);
  }
  if (auto& timeline = lane.state(); !timeline.reached(timeline.issued())) lane.synchronize();
  state_->buffers.insert(address, std::move(buffer));
  return address;
}

void PmrResource::do_deallocate(void* address, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  Buffer buffer = state_->buffers.take(address);
  if (!buffer.is_closed()) return buffer.close();
  report({make_error_code(std::errc::invalid_argument), "PmrResource::deallocate",
          "memory that did not come from here, or was given back already, is left as it is"});
}

bool PmrResource::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  return this == &other;
}

}  // namespace weir
