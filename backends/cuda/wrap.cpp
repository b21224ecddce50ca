// SPDX-License-Identifier: Apache-2.0
// Segments over memory that others allocated. Memory that the driver does not know as its own is refused.
#include <memory>

#include "context_scope.hpp"
#include "segment.hpp"

namespace weir::cuda {
namespace {

/// Somebody else's memory, so there is nothing to give back.
class WrappedSegment final : public GpuSegment {
 public:
  WrappedSegment(Gpu& gpu, std::int32_t label, std::size_t bytes, CUdeviceptr at, void* host_address) noexcept
      : GpuSegment(gpu, KindInfo{.kind = MemoryKind::external, .dlpack_device = label}, bytes) {
    imported = true;
    place(at, host_address);
  }
};

std::string text_of(CUdeviceptr address) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (auto rest = address; rest != 0; rest >>= 4) text.insert(text.begin(), digits[rest & 15]);
  return "0x" + text;
}

std::string place_text(CUdeviceptr address, std::size_t bytes) {
  return std::to_string(bytes) + " bytes at " + text_of(address);
}

// Ask the driver about memory that it has already said is its own.
template <class T>
T query(CUpointer_attribute attribute, CUdeviceptr address) {
  T value{};
  const auto asked = driver().PointerGetAttribute(&value, attribute, address);
  if (asked != CUDA_SUCCESS) fail(asked, "cuPointerGetAttribute", "memory at " + text_of(address));
  return value;
}

struct Place {
  std::int32_t label = 0;  // 0: not known to CUDA
  int ordinal = -1;
};

Place locate(CUdeviceptr address) {
  Place place;
  unsigned int type = 0;
  const auto known = driver().PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (known == CUDA_ERROR_INVALID_VALUE) return place;
  if (known != CUDA_SUCCESS) fail(known, "cuPointerGetAttribute", "memory at " + text_of(address));
  place.ordinal = query<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  if (query<unsigned int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, address)) {
    place.label = dlpack_cuda_managed;
  } else if (type == CU_MEMORYTYPE_HOST) {
    place.label = dlpack_cuda_host;
  } else if (type == CU_MEMORYTYPE_DEVICE) {
    place.label = dlpack_cuda;
  }
  return place;
}

// Return the bytes from `address` to the end of its allocation. Each mapped physical handle is one allocation. Returns
// 0 where the driver knows the address, but no memory is there.
std::size_t bytes_from(CUdeviceptr address, std::int32_t label) {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  if (label == dlpack_cuda) {
    const auto known = driver().MemGetAddressRange(&base, &size, address);
    if (known == CUDA_ERROR_NOT_FOUND) return 0;
    check(known, "cuMemGetAddressRange", "memory at ", text_of(address));
  } else {
    base = query<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    size = query<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
  }
  return address - base < size ? size - (address - base) : 0;
}

}  // namespace

spi::Segment* wrap(spi::DeviceState& device, std::uint64_t address, std::size_t bytes) {
  Gpu& gpu = gpu_of(device);
  const ContextScope scope(gpu.context());
  CUdeviceptr at = address;
  const Place first = locate(at);
  if (first.label == 0) {
    throw Error(Errc::invalid_argument, place_text(at, bytes) + " is not memory that CUDA knows");
  }
  // The driver knows no range of memory whose device is not the current context's, so look at the device first.
  if (first.label == dlpack_cuda && first.ordinal != gpu.ordinal) {
    throw Error(Errc::incompatible, place_text(at, bytes) + " is memory of CUDA device " +
                                        std::to_string(first.ordinal) + ", not of " + gpu.describe());
  }
  void* host = nullptr;
  if (first.label == dlpack_cuda_host) {
    host = query<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, at);
    at = query<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at);  // differs for some registered memory
  } else if (first.label == dlpack_cuda_managed) {
    host = reinterpret_cast<void*>(at);
  }
  for (std::size_t covered = 0; covered < bytes;) {
    const Place place = covered ? locate(at + covered) : first;
    const bool same = place.label == first.label && place.ordinal == first.ordinal;
    const std::size_t step = same ? bytes_from(at + covered, place.label) : 0;
    if (step == 0) {
      throw Error(Errc::invalid_argument, place_text(at, bytes) + " reaches beyond its CUDA allocation, of which " +
                                              std::to_string(covered) + " bytes follow that address");
    }
    covered += step;
  }
  return std::make_unique<WrappedSegment>(gpu, first.label, bytes, at, host).release();
}

}  // namespace weir::cuda
