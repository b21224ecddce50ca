// SPDX-License-Identifier: Apache-2.0
#pragma once
// weir's pool as an Allocator.

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <utility>

#include "allocator.hpp"
#include "weir/weir.hpp"

namespace weir::bench {

class Pooled {
 public:
  using Stream = weir::Stream;
  using Held = Buffer;

  explicit Pooled(const Device& device, const PoolOptions& options = {})
      : device_(device), pool_(make_pool(device, options)) {}

  [[nodiscard]] Stream stream() const { return Stream(device_); }
  [[nodiscard]] Held allocate(std::size_t bytes, const Stream& stream) const {
    return pool_->allocate(bytes, stream);
  }
  void free(Held& held, const Stream&) const { held = Buffer(); }
  void pair(std::size_t bytes, const Stream& stream) const {
    benchmark::DoNotOptimize(pool_->allocate(bytes, stream));
  }
  void free_on(Held& held, const Stream& other) const { held.close(other); }
  void call(const Stream& stream, std::function<void()> function) const { stream.call(std::move(function)); }
  void synchronize(const Stream& stream) const { stream.synchronize(); }

 private:
  Device device_;
  PoolPtr pool_;
};
static_assert(Ordered<Pooled>);

inline Subject<Pooled> weir_on(const Device& device) {
  return {std::string(device.backend()), "weir", [device](std::size_t ready) {
            return std::make_shared<Pooled>(device, PoolOptions{.initial_bytes = ready});
          }};
}

}  // namespace weir::bench
