// SPDX-License-Identifier: Apache-2.0
#include "lent_streams.hpp"

#include <utility>

#include "stream.hpp"

namespace weir::cuda {

spi::Ref<spi::StreamState> LentStreams::take() {
  for (std::size_t left = count(); left != 0; --left) {
    spi::Ref<spi::StreamState> stream;
    {
      const std::scoped_lock lock(mutex_);
      if (kept_.empty()) break;
      stream = std::move(kept_.front());
      kept_.pop_front();
    }
    if (stream->reached(stream->issued())) return stream;  // the driver is asked without the lock
    if (!stream->lost()) give_back(std::move(stream));
  }
  return spi::Ref<spi::StreamState>::adopt(GpuStream::create(gpu_));
}

void LentStreams::give_back(spi::Ref<spi::StreamState> stream) noexcept {
  try {
    const std::scoped_lock lock(mutex_);
    if (kept_.size() < most) kept_.push_back(std::move(stream));
  } catch (const std::bad_alloc&) {  // one stream fewer is kept
  }
}

std::size_t LentStreams::count() noexcept {
  const std::scoped_lock lock(mutex_);
  return kept_.size();
}

}  // namespace weir::cuda
