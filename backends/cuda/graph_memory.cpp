// SPDX-License-Identifier: Apache-2.0
#include "graph_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "context_scope.hpp"
#include "device.hpp"
#include "naming.hpp"
#include "stream.hpp"
#include "weir/error.hpp"
#include "weir/spi/block.hpp"

namespace weir::cuda {

// A stream that takes part in a capture does so until the capture ends, so its handle means one stream all the time.
// The per-thread handle does not.
Buffer GraphMemory::again(CUstream native, std::size_t bytes, std::size_t alignment) {
  if (native == CU_STREAM_PER_THREAD) return {};
  const std::scoped_lock lock(mutex_);
  const auto largest = 2 * bytes;
  for (auto at = free_.lower_bound({native, bytes}); at != free_.end(); ++at) {
    const auto [stream, size] = at->first;
    if (stream != native || size > largest) break;
    if (reinterpret_cast<std::uintptr_t>(at->second) % alignment != 0) continue;
    Buffer found = own_.at(at->second).share();
    free_.erase(at);
    return found;
  }
  return {};
}

Buffer GraphMemory::add(void* address, Buffer buffer) {
  const std::scoped_lock lock(mutex_);
  Buffer other = buffer.share();
  own_.emplace(address, std::move(buffer));
  return other;
}

bool GraphMemory::came_back(void* address, CUstream native) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = own_.find(address);
  if (found == own_.end()) return false;
  try {
    free_.emplace(std::pair{native, found->second.size()}, address);
  } catch (const std::bad_alloc&) {  // then the graph does not use it again
  }
  return true;
}

void GraphMemory::hold(Buffer& buffer, Stream home) {
  const std::scoped_lock lock(mutex_);
  held_.push_back({Buffer{}, std::move(home)});
  held_.back().buffer = std::move(buffer);
}

// The driver keeps what a graph owns until its launches are over, as far as is known. But nothing says so, and a point
// of the whole context costs nothing before another stream wants the memory.
void GraphMemory::end(bool spares_captures) noexcept {
  decltype(own_) own;
  decltype(held_) held;
  {
    const std::scoped_lock lock(mutex_);
    own.swap(own_);
    held.swap(held_);
    free_.clear();
  }
  const Naming nobody(nullptr, spares_captures);
  const auto last = last_point();
  const auto close = [&](Buffer& buffer) {
    try {
      if (last) buffer.block()->used(gpu_.whole_context(), *last);
    } catch (const std::exception& error) {
      buffer.block()->owners.fetch_add(1);  // never dropped again
      report_leak("cuda::Allocator: the end of a graph", buffer.size(), error.what());
    }
    buffer.close();
  };
  for (auto& [address, buffer] : own) close(buffer);
  for (Held& one : held) {
    if (one.home.device().backend() == "cuda") {
      if (auto* const app = static_cast<GpuStream&>(one.home.state()).app()) app->unmarked.add();
    }
    close(one.buffer);
  }
}

// Return a point that covers everything that the device has by now; none where the driver has no such points.
std::optional<std::uint64_t> GraphMemory::last_point() noexcept {
  if (!driver().CtxRecordEvent) return {};
  try {
    return gpu_.whole_context().put(spi::NativeOp{});
  } catch (const std::exception&) {  // the device is lost, and its work is over
    return {};
  }
}

void Graphs::List::forget(cuuint64_t id) noexcept {
  const std::scoped_lock lock(mutex);
  const auto found = graphs.find(id);
  if (found == graphs.end()) return;
  if (!found->second.captured.empty()) --open;
  graphs.erase(found);
}

// Called by a thread of the driver's, which must not call the driver.
void CUDA_CB Graphs::graph_ended(void* data) noexcept {
  std::unique_ptr<Owner> owner(static_cast<Owner*>(data));
  owner->list->forget(owner->id);
  reaper().add(std::move(owner));
  try {
    reaper().start();
  } catch (const std::exception& error) {
    report({{},
            "cuda::Allocator: the memory of a graph comes back with that of the next one: no thread can free it now",
            error.what()});
  }
}

// The graph takes the owner over, and ends it.
void Graphs::give_to(CUgraph graph, std::unique_ptr<Owner> owner, Gpu& gpu) {
  CUuserObject object = nullptr;
  check(driver().UserObjectCreate(&object, owner.get(), &graph_ended, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        "cuUserObjectCreate", gpu);
  (void)owner.release();
  const auto given = driver().GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (given == CUDA_SUCCESS) return;
  report_failure(driver().UserObjectRelease(object, 1), "cuUserObjectRelease", gpu);
  check(given, "cuGraphRetainUserObject", gpu);
}

bool is_captured(CUstreamCaptureStatus status, const Gpu& gpu) {
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    throw Error(Errc::unsupported, "a capture of a CUDA stream of " + gpu.describe() +
                                       " is invalid; end it with cuStreamEndCapture, and capture again");
  }
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

std::shared_ptr<GraphMemory> Graphs::of(Gpu& gpu, CUstream native) {
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  check(driver().StreamGetCaptureInfo(native, &status, &id, &graph, nullptr, nullptr), "cuStreamGetCaptureInfo", gpu);
  if (!is_captured(status, gpu)) return nullptr;
  std::unique_lock lock(list_->mutex);
  auto found = list_->graphs.find(id);
  if (found == list_->graphs.end()) {
    lock.unlock();
    auto memory = std::make_shared<GraphMemory>(gpu);
    give_to(graph, std::make_unique<Owner>(list_, memory, id), gpu);
    lock.lock();
    found = list_->graphs.try_emplace(id, One{std::move(memory), {}}).first;  // another thread may have been faster
  }
  auto& captured = found->second.captured;
  if (std::find(captured.begin(), captured.end(), native) == captured.end()) {
    captured.push_back(native);
    if (captured.size() == 1) ++list_->open;
  }
  return found->second.memory;
}

void Graphs::is_free(CUstream native) noexcept {
  const std::scoped_lock lock(list_->mutex);
  for (auto& [id, one] : list_->graphs) {
    if (std::erase(one.captured, native) != 0 && one.captured.empty()) --list_->open;
  }
}

}  // namespace weir::cuda
