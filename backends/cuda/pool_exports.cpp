// SPDX-License-Identifier: Apache-2.0
// The driver's names of pools and of their memory for other processes.
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "context_scope.hpp"
#include "device.hpp"
#include "driver_pool.hpp"
#include "weir/error.hpp"
#include "weir/interop/cuda_pools.hpp"
#include "weir/spi/resources.hpp"

namespace weir::cuda {

const spi::Backend* backend() noexcept;

static_assert(sizeof(CUmemPoolPtrExportData) == std::tuple_size_v<PoolPointer>);

spi::UniqueFd export_pool(const ResourcePtr& resource) {
  auto* const pool = resource ? dynamic_cast<DriverPool*>(spi::source_of(*resource)) : nullptr;
  if (!pool || !pool->exportable()) {
    throw Error(Errc::unsupported, "export_pool: " + (resource ? resource->name() : std::string("null")) +
                                       " is no pool of the CUDA driver that was made to be shared; use "
                                       "make_async_resource with exportable = true");
  }
  (void)pool->handle();
  spi::UniqueFd file(fcntl(pool->file(), F_DUPFD_CLOEXEC, 3));
  if (!file) throw Error({errno, std::generic_category()}, "export_pool: fcntl(F_DUPFD_CLOEXEC)");
  return file;
}

PoolPointer export_pointer(const Buffer& buffer) {
  const auto place = buffer.location();
  if (!place.segment || buffer.size() == 0) {
    throw Error(Errc::invalid_argument, "export_pointer: a buffer of zero bytes has no memory to share");
  }
  spi::Segment& segment = *place.segment;
  if (segment.device->backend != backend() || segment.kind != MemoryKind::async || segment.imported) {
    throw Error(Errc::unsupported, "export_pointer: memory of " + buffer.memory_resource()->name() +
                                       " is not of a pool of the CUDA driver that this process made");
  }
  if (place.offset != 0) {
    throw Error(Errc::invalid_argument, "export_pointer: the buffer begins " + std::to_string(place.offset) +
                                            " bytes inside of its allocation, and the driver names whole allocations");
  }
  Gpu& gpu = gpu_of(*segment.device);
  gpu.check_process();
  const ContextScope scope(gpu.context());
  CUmemPoolPtrExportData data{};
  const auto result = driver().MemPoolExportPointer(&data, segment.address);
  if (result == CUDA_ERROR_INVALID_VALUE) {
    throw Error(Errc::unsupported, "export_pointer: memory of " + buffer.memory_resource()->name() +
                                       " was not made to be shared; use make_async_resource with exportable = true (" +
                                       describe(result) + ")");
  }
  check(result, "cuMemPoolExportPointer", segment.size, " bytes on ", gpu);
  PoolPointer pointer;
  std::memcpy(pointer.data(), data.reserved, pointer.size());
  return pointer;
}

}  // namespace weir::cuda
