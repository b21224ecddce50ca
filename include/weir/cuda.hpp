// SPDX-License-Identifier: Apache-2.0
#pragma once
// What only CUDA has: its kinds of memory with their options, borrowed streams, native handles. Including this needs no
// header of NVIDIA's. Every function throws incompatible for a device, stream or buffer that is not CUDA's.

#include <cstddef>
#include <limits>
#include <memory>

#include "weir/device.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

struct CUstream_st;  // CUstream and cudaStream_t are pointers to it

/// What only CUDA has: its kinds of memory, borrowed streams, native handles.
namespace weir::cuda {

/// Return the CUDA device with this ordinal, in the order of CUDA_VISIBLE_DEVICES. Throws invalid_argument with a
/// message that names the devices there are, or says why there are none.
[[nodiscard]] WEIR_API Device device(int ordinal);

/// Make a resource that calls `cuMemAlloc` for each buffer. Allocating and giving back are slow, so use it for a few
/// large buffers or under a pool. The driver may wait for the device before it takes memory back: a thread of weir
/// makes that call, and other CUDA calls of the process may wait behind it.
[[nodiscard]] WEIR_API ResourcePtr make_device_resource(const Device& device);

/// Sizes in bytes.
struct AsyncOptions {
  /// How much unused memory the pool keeps when a stream, event or context is synchronized. The default keeps all of
  /// it; 0 gives all of it back each time, which makes the next allocations slow.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  /// The most memory that the pool may hold, which the driver rounds up; 0 means as much as the device has. A limit
  /// needs a driver of CUDA 12.2 or newer.
  std::size_t max_size = 0;
  /// Other processes can open the pool and its buffers, cuda.core's included: interop/cuda_pools.hpp. The driver then
  /// keeps what the pool took until the pool ends: neither `trim` nor the release threshold gives anything back.
  bool exportable = false;
};

/// Make a resource over a memory pool of the driver. The pool belongs to this resource alone, and lives until the
/// resource and all its buffers are gone. Memory is allocated and freed in stream order. For a stream that is not
/// CUDA's, it is allocated on a stream of `device`, and the given stream waits for that one. `stats().reserved` is what
/// the pool holds. `trim` waits for the frees of this resource that the device has not reached yet, then gives back
/// what is not in use. Throws unsupported where the driver has no pools.
[[nodiscard]] WEIR_API ResourcePtr make_async_resource(const Device& device, const AsyncOptions& options = {});

/// Options of make_vmm_resource.
struct VmmOptions {
  bool exportable = false;  ///< buffers can be given to other processes
  /// Vulkan devices of the same GPU reach the buffers without a copy: their streams copy and fill them, and
  /// `vulkan::native` names them. Such buffers are exportable, too, and a pool takes them by whole segments and not by
  /// pages. Vulkan's specification does not provide for opening memory of CUDA, but NVIDIA's driver does it. Where a
  /// driver refuses, copies go through the host.
  bool vulkan = false;
};

/// Make a resource of physical memory that is mapped into reserved addresses. Each buffer has a handle of its own, and
/// its size is rounded up to the device's granularity (2 MiB on most devices). Throws unsupported where the device has
/// no such memory.
[[nodiscard]] WEIR_API ResourcePtr make_vmm_resource(const Device& device, const VmmOptions& options = {});

/// Make a resource of page-locked host memory, which every CUDA device reaches at the same address. Copies to and from
/// such memory run at full speed and need no staging.
[[nodiscard]] WEIR_API ResourcePtr make_pinned_resource(const Device& device);

/// Make a resource of memory that migrates between host and device on access. Throws unsupported where the two may not
/// touch the memory at the same time. Allocating more than the device has free is possible, at the price of page
/// faults.
[[nodiscard]] WEIR_API ResourcePtr make_managed_resource(const Device& device);

/// Return a Stream for an application's CUDA stream of `device`. As long as the timeline of a CUDA stream is in use,
/// borrowing that stream again returns the same timeline. Throws incompatible when the stream belongs to another
/// device, and unsupported while the stream is being captured.
///
/// Null and the legacy and per-thread handles (1, 2) mean those streams of the device's primary context. The per-thread
/// handle means the stream of the calling thread; work that other threads put on that timeline goes to the legacy
/// stream, which orders it in the same way. A stream of another context is used in that context. Two sorts of work do
/// not run on the stream itself but on one that weir makes for this timeline alone: fills of device memory that is not
/// of the stream's context, and copies and fills of another device's memory, except copies between two devices. Work on
/// a stream of a green context keeps to that context's part of the device.
///
/// The stream must stay valid while its timeline is in use. A Stream or an Event of the timeline uses it, and so does
/// memory that was allocated on the stream, or used on it through weir, until that memory is given back. It is not
/// given back while it has an owner (Buffer, slice, Tensor, DLPack export), while another process has it open (the
/// lease of a pool's buffer), or while `make_debug` keeps it. Afterwards the stream may be destroyed, even with work
/// pending: weir makes no further call on it, and memory that it used last is free once that work is complete. The call
/// that ends the use may record one more event on the stream. If the application is capturing the stream at that
/// moment, the timeline is lost, which is reported, and memory that was used there after the timeline's last point is
/// never given out again. `owner`, if given, is kept at least until the use has ended and nobody waits for a point of
/// the stream any more. If a stream is borrowed with several owners, the first one is kept.
///
/// A stream that Tensor::to_dlpack names as its consumer's is not in use by that export after the call. When the export
/// ends, its memory waits for all work that is on the device by then, in the primary context, work of streams that were
/// destroyed included. That needs a driver of CUDA 12.5 or newer; with an older one, and for streams of other contexts,
/// the stream is in use until the export ends. The driver is asked about such memory only when somebody wants it. While
/// a stream that does not synchronize with the legacy stream is being captured anywhere in the context, asking makes
/// that capture fail, which the driver gives no way to foresee.
///
/// The application's work and weir's work run in the order in which they were put on the stream. Nothing is held back
/// in software. A wait for a point of another backend makes the stream wait on the device until a host thread has seen
/// that point. A wait for a CUDA point that weir still holds back on another stream returns once the driver has that
/// point. At most four of a device's waits for the host use a word in memory at a time; each further one blocks a host
/// function of its stream, and the driver may run other streams' host functions only after it. While a stream waits for
/// the host, other streams that share its hardware queue wait, too. So the point that it waits for must not depend on
/// CUDA work that is put later.
[[nodiscard]] WEIR_API Stream borrow(const Device& device, CUstream_st* stream, std::shared_ptr<void> owner = nullptr);

/// Return the driver's handle of a stream, for putting work on the stream outside weir. The handle is valid while the
/// stream is. From then on the stream behaves like a borrowed one. The first call waits until the driver has all the
/// work that weir held back on the stream.
[[nodiscard]] WEIR_API CUstream_st* native(const Stream& stream);

/// Return the CUdeviceptr of the buffer's first byte, for device, pinned and managed memory alike; 0 for zero bytes.
/// Exportable Vulkan memory that lies in a GPU that CUDA knows, too, has such a pointer as well: the first call for
/// memory of a segment imports that segment, and the pointer is valid as long as the buffer's memory. Using the pointer
/// on a stream that weir does not know about needs `Buffer::use_on` or an event wait. Throws closed; incompatible for
/// memory that CUDA does not reach; the driver's error when the import is refused.
[[nodiscard]] WEIR_API unsigned long long pointer(const Buffer& buffer);

}  // namespace weir::cuda
