// SPDX-License-Identifier: Apache-2.0
#pragma once
// What only CUDA has: its kinds of memory with their options, borrowed streams, native handles. No header of NVIDIA is
// needed to include this. Everything here throws incompatible for a device, stream or buffer that is not CUDA's.

#include <cstddef>
#include <limits>
#include <memory>

#include "weir/device.hpp"
#include "weir/fwd.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

struct CUstream_st;  // CUstream and cudaStream_t are pointers to it

namespace weir::cuda {

/// The CUDA device of that ordinal, as CUDA_VISIBLE_DEVICES orders them. Throws invalid_argument naming the devices
/// there are, and why there are none.
[[nodiscard]] Device device(int ordinal);

/// One `cuMemAlloc` per buffer. Slow to allocate and to give back (the driver may wait for the device, so a thread of
/// weir does it, and other CUDA calls of the process may wait behind that): for few large buffers, or under a pool.
[[nodiscard]] ResourcePtr make_device_resource(const Device& device);

/// Sizes in bytes.
struct AsyncOptions {
  /// How much unused memory the pool keeps when a stream, event or context is synchronized. The default keeps all;
  /// 0 gives everything back each time and makes the next allocations slow.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  /// The most the pool holds, rounded up by the driver; 0 means what the device has. Needs a driver of CUDA 12.2.
  std::size_t max_size = 0;
};

/// A memory pool of the driver, of this resource alone: it lives until the resource and all its buffers are gone.
/// Allocated and freed in stream order. On a stream that is not CUDA's, the memory comes from a stream of `device` that
/// the given one waits for. `stats().reserved` is what the pool holds; `trim` gives back what is not in use, after what
/// this resource freed and the device has not come to yet. Throws unsupported where the driver has no pools.
[[nodiscard]] ResourcePtr make_async_resource(const Device& device, const AsyncOptions& options = {});

struct VmmOptions {
  bool exportable = false;  ///< buffers can be given to other processes, and to Vulkan on the same GPU
};

/// Physical memory mapped into reserved addresses, one handle per buffer, rounded up to the device's granularity (2 MiB
/// on most). Throws unsupported where the device cannot.
[[nodiscard]] ResourcePtr make_vmm_resource(const Device& device, const VmmOptions& options = {});

/// Page-locked host memory that every CUDA device reaches at the same address: copies to and from it run at full speed
/// and need no staging.
[[nodiscard]] ResourcePtr make_pinned_resource(const Device& device);

/// Memory that migrates between host and device on access. Only where both may touch it at the same time, else
/// unsupported. What is allocated beyond the free memory of the device is paid for with page faults.
[[nodiscard]] ResourcePtr make_managed_resource(const Device& device);

/// The timeline of an application's stream of `device`; the same one for the same stream as long as it is in use.
///
/// Null and the legacy and per-thread handles (1, 2) mean those of the device's primary context; a per-thread stream is
/// that of the calling thread, and work that other threads put on it goes to the legacy stream, which orders it alike.
/// Streams of other contexts are used in theirs; fills of device memory that is not of that context, and work on
/// another device's memory, go to a stream of weir's that belongs to this one alone. Green contexts keep to their part
/// of the device.
///
/// The stream must stay valid while the timeline is in use: by a Stream or an Event of it, or by memory that is not
/// given back and was allocated on it or used on it through weir. Such memory has an owner (Buffer, slice, Tensor,
/// DLPack export), or another process has it open (the lease of a pool's buffer), or `make_debug` still keeps it.
/// Afterwards the stream may be destroyed, also with work pending: weir makes no call on it any more, and memory that
/// it used last is free once that work is over. The call that ends the use may record one more event on it; if the
/// application captures it at that moment, the timeline is lost, which is reported, and memory that was used there
/// after its last point is never given out again. `owner`, if given, is kept at least until the use ends, and until
/// nobody waits for a point of the stream; of several, the one that was given first.
///
/// Work that the application puts on the stream is ordered with weir's as it was put. Nothing is held back in software:
/// a wait for a point of another backend makes the stream wait on the device until a host thread saw the point, and a
/// wait for a point of CUDA that weir still holds back returns once the driver has it. At most four waits on the device
/// at a time use a word in memory; further ones block a host function of the stream, and the driver may run other
/// streams' host functions behind it. While a stream waits so, others that share its hardware queue wait too: do not
/// let what it waits for depend on CUDA work that is put later. A stream that is being
/// captured is refused with unsupported. Throws incompatible when the stream is of another device.
[[nodiscard]] Stream borrow(const Device& device, CUstream_st* stream, std::shared_ptr<void> owner = nullptr);

/// The driver's handle of a stream, for putting work on it outside weir; valid while the stream is. From then on the
/// stream behaves as a borrowed one; the first call waits until the driver has what weir held back on it.
[[nodiscard]] CUstream_st* native(const Stream& stream);

/// The CUdeviceptr of the buffer's first byte: device, pinned and managed memory alike. 0 for zero bytes. Using it on a
/// stream that weir does not know about needs `Buffer::use_on` or an event wait. Throws closed.
[[nodiscard]] unsigned long long pointer(const Buffer& buffer);

}  // namespace weir::cuda
