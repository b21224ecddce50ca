// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a stream cannot put on itself, because the memory is of a context that its own does not reach.

#include <cuda.h>

#include <list>
#include <mutex>

namespace weir::cuda {

class Gpu;

/// A stream of a device's primary context that works for one stream of another context, and for no other: two that have
/// nothing to do with each other would wait for each other on it. What is on it at its end is done.
class SideStream {
 public:
  explicit SideStream(Gpu& gpu);
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  ~SideStream();

  [[nodiscard]] Gpu& gpu() const noexcept { return gpu_; }
  /// Only while the device's primary context is current.
  [[nodiscard]] CUstream handle() const noexcept { return handle_; }
  /// Whether work on it is not known to be over.
  [[nodiscard]] bool is_busy() const noexcept;
  /// Wait on the host for all of it. An error is reported.
  void synchronize() const noexcept;

 private:
  Gpu& gpu_;
  CUstream handle_ = nullptr;
};

/// Those of one stream, made when they are needed.
class SideStreams {
 public:
  SideStream& on(Gpu& gpu);
  [[nodiscard]] bool are_busy() noexcept;

 private:
  std::mutex mutex_;
  std::list<SideStream> streams_;
};

}  // namespace weir::cuda
