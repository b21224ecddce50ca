// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the timeline of a CUstream, so that borrowing a stream twice gives one timeline.

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "stream.hpp"

namespace weir::cuda {

/// Does not own the timelines: each leaves when its last owner is gone. Keyed by the driver's stream id, because
/// handles are reused.
class StreamRegistry {
 public:
  static StreamRegistry& get();

  /// Return the timeline of `native` in `context`, which is current. If there is none, `make()` makes it.
  template <class Make>
  spi::Ref<spi::StreamState> find_or_add(CUcontext context, CUstream native, Make make);
  void add(GpuStream& stream);
  void forget(GpuStream& stream) noexcept;

 private:
  using Key = std::pair<CUcontext, unsigned long long>;
  static unsigned long long id_of(CUstream native);

  std::mutex mutex_;
  std::map<Key, GpuStream*> streams_;
};

template <class Make>
spi::Ref<spi::StreamState> StreamRegistry::find_or_add(CUcontext context, CUstream native, Make make) {
  const auto id = id_of(native);
  const std::scoped_lock lock(mutex_);
  GpuStream*& slot = streams_[{context, id}];
  if (slot && slot->try_retain()) return spi::Ref<spi::StreamState>::adopt(slot);
  slot = nullptr;  // that timeline has ended, but has not reached forget() yet
  GpuStream* made = make();
  made->driver_id_ = id;
  slot = made;
  return spi::Ref<spi::StreamState>::adopt(made);
}

}  // namespace weir::cuda
