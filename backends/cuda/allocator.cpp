// SPDX-License-Identifier: Apache-2.0
#include "weir/interop/cuda_allocator.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "context_scope.hpp"
#include "device.hpp"
#include "stream.hpp"
#include "weir/buffer.hpp"
#include "weir/interop/buffer_table.hpp"
#include "weir/spi/block.hpp"

namespace weir::cuda {

const spi::Backend* backend() noexcept;

namespace {

constexpr std::size_t most_lanes = 64;

/// A stream of the application, and a stream of weir's own beside it. Each is ordered after the other where memory
/// changes hands, and only there. Between the calls that name the application's stream, nobody may ask the driver about
/// it. So a lane holds its timeline as live memory does.
struct Lane {
  Lane(const Stream& theirs, Stream ours) : own(std::move(ours)), app_(theirs.state()) { app_.retain_memory(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() { app_.release_unasked(); }

  /// Return the application's stream. Use this only in a call that names that stream.
  [[nodiscard]] Stream app() const noexcept {
    (void)app_.try_retain();
    return Stream(spi::Ref<spi::StreamState>::adopt(&app_));
  }

  /// Order `app` after what the resource put on `own`. Usually there is nothing new.
  void take_over() {
    const std::scoped_lock lock(mutex);
    if (own.state().issued() <= covered) return;
    const Event point = own.record();
    app().wait(point);
    covered = std::max(covered, point.value());
  }

  /// Order `own` after `app`.
  void hand_back() {
    const std::scoped_lock lock(mutex);
    const Event point = app().record();
    const auto value = own.state().put(spi::WaitOp{spi::Kept(*point.timeline()), point.value()});
    // The wait that was just put on `own` is for `app`'s own past, so `app` need not wait for it. But if the point is
    // complete already, put() may have added nothing, and `value` may be that of another operation.
    if (value == covered + 1 && !point.done()) covered = value;
  }

  const Stream own;
  std::mutex mutex;
  std::uint64_t covered = 0;    // `app` is ordered after everything on `own` up to this value
  std::uint64_t last_used = 0;  // guarded by State::mutex

 private:
  spi::StreamState& app_;
};
using LanePtr = std::shared_ptr<Lane>;

ResourcePtr checked(ResourcePtr resource) {
  if (!resource) throw Error(Errc::invalid_argument, "cuda::Allocator: the resource is null");
  const Device device = resource->device();
  if (device.backend() == "host" || device.state().backend == backend()) return resource;
  throw Error(Errc::unsupported, "cuda::Allocator: memory of " + device.state().describe() + " (" + resource->name() +
                                     ") has no address for CUDA");
}

void* address_of(const Buffer& buffer) noexcept {
  const auto address = buffer.device_address();
  return address ? reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)) : buffer.host_data();
}

void tell(const char* where, const std::string& what) noexcept {
  report({make_error_code(std::errc::invalid_argument), where, what});
}

}  // namespace

struct Allocator::State {
  explicit State(ResourcePtr from) : resource(checked(std::move(from))), sync(resource->device()) {}

  void* keep(Buffer buffer) {
    void* const address = address_of(buffer);
    buffers.insert(address, std::move(buffer));
    return address;
  }

  /// Take the buffer at `address` out of the table. If there is none, report that and return a closed buffer.
  Buffer take(void* address) noexcept {
    Buffer buffer = buffers.take(address);
    if (buffer.is_closed()) {
      tell("cuda::Allocator::deallocate",
           "memory that did not come from here, or was given back already, is left as it is");
    }
    return buffer;
  }

  /// Return the device for stream handles that name none.
  Gpu& gpu() const {
    const Device device = resource->device();
    return gpu_of(device.state().backend == backend() ? device.state() : cuda::device(0).state());
  }

  LanePtr lane(CUstream native) {
    Gpu& home = gpu();
    home.check_process();
    if (!native) native = CU_STREAM_LEGACY;
    CUcontext context = home.context();
    if (native != CU_STREAM_LEGACY && native != CU_STREAM_PER_THREAD) {
      const RelaxedCapture relaxed;
      check(driver().StreamGetCtx(native, &context), "cuStreamGetCtx", home);
    }
    const ContextScope scope(context);
    refuse_captured(native, home);
    unsigned long long id = 0;
    check(driver().StreamGetId(native, &id), "cuStreamGetId", home);
    const auto find = [&]() -> LanePtr {
      const auto found = lanes.find({context, id});
      if (found == lanes.end()) return nullptr;
      found->second->last_used = ++clock;
      return found->second;
    };
    {
      const std::scoped_lock lock(mutex);
      if (auto known = find()) return known;
    }
    auto made = std::make_shared<Lane>(borrow(device_of_context(), native), Stream(resource->device()));
    LanePtr oldest;  // destroyed after the lock is released
    const std::scoped_lock lock(mutex);
    if (auto known = find()) return known;
    if (lanes.size() >= most_lanes) oldest = take_oldest();
    made->last_used = ++clock;
    lanes.emplace(Key{context, id}, made);
    return made;
  }

  static Device device_of_context() {
    CUdevice wanted = 0;
    check(driver().CtxGetDevice(&wanted), "cuCtxGetDevice");
    for (const Device& one : devices()) {
      if (one.state().backend == backend() && gpu_of(one.state()).handle() == wanted) return one;
    }
    return cuda::device(wanted);  // throws, and says which devices there are
  }

  LanePtr take_oldest() {
    const auto oldest = std::min_element(lanes.begin(), lanes.end(), [](const auto& a, const auto& b) {
      return a.second->last_used < b.second->last_used;
    });
    return std::move(lanes.extract(oldest).mapped());
  }

  using Key = std::pair<CUcontext, unsigned long long>;  // ids are never reused, handles are
  const ResourcePtr resource;
  const Stream sync;  // only the resource puts work on it
  BufferTable buffers;
  std::mutex mutex;
  std::map<Key, LanePtr> lanes;
  std::uint64_t clock = 0;
};

Allocator::Allocator(ResourcePtr resource) : state_(std::make_unique<State>(std::move(resource))) {}
Allocator::~Allocator() = default;

const ResourcePtr& Allocator::resource() const noexcept { return state_->resource; }
std::size_t Allocator::live() const noexcept { return state_->buffers.size(); }

void* Allocator::allocate(CUstream_st* stream, std::size_t bytes, std::size_t alignment) {
  if (bytes == 0) return nullptr;
  const LanePtr lane = state_->lane(stream);
  Buffer buffer = state_->resource->allocate(bytes, lane->own, alignment);
  lane->take_over();
  return state_->keep(std::move(buffer));
}

void Allocator::deallocate(CUstream_st* stream, void* address) noexcept {
  if (!address) return;
  Buffer buffer = state_->take(address);
  if (buffer.is_closed() || forked_after_load()) return;
  spi::Block& block = *buffer.block();
  try {
    const LanePtr lane = state_->lane(stream);
    if (block.stream == &lane->own.state()) return lane->hand_back();
    const Stream app = lane->app();
    block.used(app.state(), app.record().value());
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    if (known && known->code() == Errc::device_lost) return;
    block.owners.fetch_add(1);  // never dropped again
    tell("cuda::Allocator::deallocate", std::to_string(block.size) + " bytes are leaked: " + error.what());
  }
}

void* Allocator::allocate_sync(std::size_t bytes, std::size_t alignment) {
  if (bytes == 0) return nullptr;
  Buffer buffer = state_->resource->allocate(bytes, state_->sync, alignment);
  if (auto& timeline = state_->sync.state(); !timeline.reached(timeline.issued())) state_->sync.synchronize();
  return state_->keep(std::move(buffer));
}

void Allocator::deallocate_sync(void* address) noexcept {
  if (address) state_->take(address).close();
}

}  // namespace weir::cuda
