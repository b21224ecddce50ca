// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams for work that a stream cannot run itself, because the memory belongs to a context that its own does not
// reach.

#include <cuda.h>

#include <list>
#include <mutex>

namespace weir::cuda {

class Gpu;

/// A stream of a device's primary context that works for one stream of another context, and for no other. If two
/// unrelated streams shared one, they would wait for each other on it. Work that is on it when it is destroyed still
/// completes.
class SideStream {
 public:
  explicit SideStream(Gpu& gpu);
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  ~SideStream();

  [[nodiscard]] Gpu& gpu() const noexcept { return gpu_; }
  /// Return the driver's stream. Use it only while the device's primary context is current.
  [[nodiscard]] CUstream handle() const noexcept { return handle_; }
  /// Return whether some work on it is not known to be complete.
  [[nodiscard]] bool is_busy() const noexcept;
  /// Wait on the host for all its work. An error is reported.
  void synchronize() const noexcept;

 private:
  Gpu& gpu_;
  CUstream handle_ = nullptr;
};

/// The side streams of one stream, made when they are needed.
class SideStreams {
 public:
  SideStream& on(Gpu& gpu);
  [[nodiscard]] bool are_busy() noexcept;

 private:
  std::mutex mutex_;
  std::list<SideStream> streams_;
};

}  // namespace weir::cuda
