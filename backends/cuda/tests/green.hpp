// SPDX-License-Identifier: Apache-2.0
#pragma once
// An application's green context: a part of the device's processors.

#include <cuda.h>

#include <memory>

namespace weir::cuda_test {

/// With one stream.
class GreenContext {
 public:
  /// Null where the driver or the device has none.
  static std::unique_ptr<GreenContext> make();
  GreenContext(const GreenContext&) = delete;
  GreenContext& operator=(const GreenContext&) = delete;
  ~GreenContext();

  [[nodiscard]] CUcontext get() const { return context_; }
  [[nodiscard]] CUstream stream() const { return stream_; }

 private:
  GreenContext() = default;
  CUgreenCtx green_ = nullptr;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace weir::cuda_test
