// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which timeline belongs to which CUstream, so that borrowing one twice gives one timeline.

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "stream.hpp"

namespace weir::cuda {

/// Weak: a timeline leaves when its last owner is gone. Keyed by the driver's stream id, because handles are used
/// again.
class StreamRegistry {
 public:
  static StreamRegistry& get();

  /// The timeline of `native` in `context`, which is current; made by `make()` if there is none.
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
  slot = nullptr;  // ended, but not yet here to say so
  GpuStream* made = make();
  made->driver_id_ = id;
  slot = made;
  return spi::Ref<spi::StreamState>::adopt(made);
}

}  // namespace weir::cuda
