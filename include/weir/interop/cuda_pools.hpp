// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory pools of the CUDA driver between processes, as NVIDIA's cuda.core shares them: a file names the pool, and 64
// bytes of the driver name each allocation. Between two programs of weir use weir/ipc.hpp, which needs none of the
// rules below: there the kernel counts who has the memory.
//
// The driver counts nobody. These rules are the caller's:
// * A receiver must not use memory before the sender's work on it is complete: synchronize, then send the pointer.
// * The sender must not close a buffer before all receivers have closed theirs. In the receiver, memory is given back
//   when its last owner is closed and its work is complete: synchronize, close, then tell the sender.

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "weir/buffer.hpp"
#include "weir/cuda.hpp"
#include "weir/export.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::cuda {

/// The driver's name of an allocation for other processes (CUmemPoolPtrExportData). The bytes mean something only
/// beside the file of the same pool. cuda.core has them in an IPCBufferDescriptor.
using PoolPointer = std::array<std::byte, 64>;

/// Return a new file that names the driver's pool of `resource`, which make_async_resource made exportable. It is what
/// cuda.core calls an allocation handle. Throws unsupported for other resources, and what the driver refuses.
[[nodiscard]] WEIR_API spi::UniqueFd export_pool(const ResourcePtr& resource);

/// Return the name of the buffer's memory, which an exportable resource of make_async_resource allocated. Throws
/// unsupported for other memory, and for memory that came from another process; invalid_argument for a slice that
/// begins inside of an allocation, and for zero bytes; closed.
[[nodiscard]] WEIR_API PoolPointer export_pointer(const Buffer& buffer);

/// A driver's pool of another process. Makes no new memory: it opens what the other process allocated. A value: copies
/// are the same import. It lives until its copies and all buffers that it opened are gone. Thread-safe.
class WEIR_API ImportedPool {
 public:
  /// Import the pool that `file` names, of the same GPU as `device`. The import keeps no file. Throws
  /// corrupt_descriptor when the file names no pool; unsupported in a forked child; what the driver refuses.
  ImportedPool(const Device& device, spi::UniqueFd file);

  /// Open the memory that `pointer` names, as a buffer of `bytes` that is usable on `stream` at once. `pointer` is
  /// checked by the driver, and `bytes` against the size that the driver knows. Memory that is open in this process
  /// already is opened once more without the driver, because the driver would end both at the first close. That holds
  /// for weir's own buffers: memory that another library of this process opened must be closed there first. Throws
  /// corrupt_descriptor when the pool has no such memory, or less of it; incompatible for memory of another device;
  /// invalid_argument for zero bytes.
  [[nodiscard]] Buffer open(std::span<const std::byte> pointer, std::size_t bytes, const Stream& stream) const;

  [[nodiscard]] Device device() const;  ///< where buffers are opened

 private:
  struct State;
  std::shared_ptr<State> state_;
  friend class PoolImports;
};

}  // namespace weir::cuda
