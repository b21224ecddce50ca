// SPDX-License-Identifier: Apache-2.0
#include "stream_registry.hpp"

#include "weir/error.hpp"

namespace weir::cuda {

StreamRegistry& StreamRegistry::get() {
  static auto& instance = *new StreamRegistry;
  return instance;
}

unsigned long long StreamRegistry::id_of(CUstream native) {
  unsigned long long id = 0;
  check(driver().StreamGetId(native, &id), "cuStreamGetId");
  return id;
}

void StreamRegistry::add(GpuStream& stream) {
  const ContextScope scope(stream.context_);
  const auto id = id_of(stream.native_);
  const std::scoped_lock lock(mutex_);
  streams_[{stream.context_, id}] = &stream;
  stream.driver_id_ = id;
}

void StreamRegistry::forget(GpuStream& stream) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find({stream.context_, stream.driver_id_});
  if (found != streams_.end() && found->second == &stream) streams_.erase(found);
}

spi::Ref<spi::StreamState> GpuStream::borrow(Gpu& gpu, CUstream native, std::shared_ptr<void> owner) {
  if (!native) native = CU_STREAM_LEGACY;
  CUcontext context = gpu.context();
  if (native != CU_STREAM_LEGACY && native != CU_STREAM_PER_THREAD) {
    const RelaxedCapture relaxed;
    check(driver().StreamGetCtx(native, &context), "cuStreamGetCtx", "a borrowed stream for ", gpu);
  }
  const ContextScope scope(context);
  CUdevice device = 0;
  check(driver().CtxGetDevice(&device), "cuCtxGetDevice", "a borrowed stream for ", gpu);
  if (device != gpu.handle()) {
    throw Error(Errc::incompatible,
                "the CUstream given for " + gpu.describe() + " is a stream of CUDA device " + std::to_string(device));
  }
  refuse_captured(native, gpu);
  auto found =
      StreamRegistry::get().find_or_add(context, native, [&] { return new GpuStream(gpu, context, native, GpuStream::Sort::borrowed); });
  if (owner) {
    auto& stream = static_cast<GpuStream&>(*found);
    const std::scoped_lock lock(stream.mutex_);
    if (!stream.owner_) stream.owner_ = std::move(owner);
  }
  return found;
}

}  // namespace weir::cuda
