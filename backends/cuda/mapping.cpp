// SPDX-License-Identifier: Apache-2.0
// Physical memory mapped into reserved addresses, and the handles that name it for other processes.
#include <fcntl.h>

#include <string_view>

#include "context_scope.hpp"
#include "segment.hpp"
#include "sticky_errors.hpp"

namespace weir::cuda {

Mapping::~Mapping() {
  if (!gpu_) return;
  const ReleaseScope scope(gpu_->context(), *gpu_);
  if (!scope) return;
  // Memory that cannot be unmapped is leaked together with its addresses, because they may still be in use.
  if (mapped_) {
    const auto unmapped = driver().MemUnmap(address_, size_);
    report_failure(unmapped, "cuMemUnmap", *gpu_);
    if (unmapped != CUDA_SUCCESS) return;
  }
  if (address_) report_failure(driver().MemAddressFree(address_, size_), "cuMemAddressFree", *gpu_);
  if (created_) report_failure(driver().MemRelease(handle_), "cuMemRelease", *gpu_);
}

CUresult map_handle(Gpu& gpu, CUdeviceptr address, std::size_t bytes, CUmemGenericAllocationHandle handle,
                    bool read_only, const char*& call) {
  call = "cuMemMap";
  if (const auto placed = driver().MemMap(address, bytes, 0, handle, 0); placed != CUDA_SUCCESS) return placed;
  call = "cuMemSetAccess";
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu.ordinal;
  access.flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto granted = driver().MemSetAccess(address, bytes, &access, 1);
  if (granted != CUDA_SUCCESS) report_failure(driver().MemUnmap(address, bytes), "cuMemUnmap", gpu);
  return granted;
}

CUresult Mapping::make(Gpu& gpu, std::size_t bytes, bool exportable, const char*& call) {
  gpu_ = &gpu;
  const auto properties = vmm_properties(gpu.ordinal, exportable);
  call = "cuMemCreate";
  const auto made = driver().MemCreate(&handle_, bytes, &properties, 0);
  created_ = made == CUDA_SUCCESS;
  return made;
}

CUresult Mapping::create(Gpu& gpu, std::size_t bytes, bool exportable, const char*& call) {
  const auto made = make(gpu, bytes, exportable, call);
  return made == CUDA_SUCCESS ? map(bytes, false, call) : made;
}

CUresult Mapping::import(Gpu& gpu, int fd, const char*& call) {
  gpu_ = &gpu;
  call = "cuMemImportFromShareableHandle";
  const auto imported = driver().MemImportFromShareableHandle(
      &handle_, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (imported != CUDA_SUCCESS) return imported;
  created_ = true;
  call = "cuMemGetAllocationPropertiesFromHandle";
  CUmemAllocationProp properties{};
  if (const auto read = driver().MemGetAllocationPropertiesFromHandle(&properties, handle_); read != CUDA_SUCCESS) {
    return read;
  }
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.location.id != gpu.ordinal) {
    throw Error(Errc::incompatible, "the memory to import is not on device " + gpu.describe());
  }
  return CUDA_SUCCESS;
}

CUresult Mapping::map(std::size_t bytes, bool read_only, const char*& call) {
  size_ = bytes;
  call = "cuMemAddressReserve";
  if (const auto reserved = driver().MemAddressReserve(&address_, bytes, 0, 0, 0); reserved != CUDA_SUCCESS) {
    address_ = 0;
    return reserved;
  }
  const auto placed = map_handle(*gpu_, address_, bytes, handle_, read_only, call);
  mapped_ = placed == CUDA_SUCCESS;
  return placed;
}

spi::ExportedHandle export_handle(spi::Segment& segment) {
  if (segment.kind != MemoryKind::vmm || !segment.exportable) {
    throw Error(Errc::unsupported, "this memory of " + segment.device->describe() + " was not made to be shared");
  }
  auto& vmm = static_cast<VmmSegment&>(segment);
  const ContextScope scope(vmm.gpu().context());
  int fd = -1;
  check(driver().MemExportToShareableHandle(&fd, vmm.mapping.handle(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle", segment.size, " bytes on ", *segment.device);
  spi::ExportedHandle handle{spi::HandleKind::cuda_vmm_fd, spi::UniqueFd(fd), segment.size};
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return handle;
}

bool imports(const spi::DeviceState& device, spi::HandleKind kind) noexcept {
  const KindInfo* vmm = device.find(MemoryKind::vmm);
  return kind == spi::HandleKind::cuda_vmm_fd && vmm && vmm->exportable;
}

// A descriptor that names something else, or memory of another size, is the sender's mistake. All other failures are
// the driver's.
void refuse_import(const Gpu& gpu, CUresult result, const char* call, std::size_t bytes) {
  const auto code = code_of(result);
  const bool lost = find_sticky(result) != nullptr;
  const bool names_it =
      std::string_view(call) == "cuMemImportFromShareableHandle" || std::string_view(call) == "cuMemMap";
  if (result != CUDA_SUCCESS && names_it && !lost && code != Errc::out_of_memory) {
    throw Error(Errc::corrupt_descriptor, "the file does not name " + std::to_string(bytes) + " bytes of memory of " +
                                              gpu.describe() + ": " + call + ": " + describe(result));
  }
  check(result, call, "import of ", bytes, " bytes on ", gpu);
}

// The driver keeps its own reference to the memory. So the descriptor stays weir's to close.
spi::Segment* import_handle(spi::DeviceState& device, spi::ImportRequest request) {
  Gpu& gpu = gpu_of(device);
  const KindInfo& info = *gpu.find(MemoryKind::vmm);
  if (request.size == 0 || request.size % info.granularity != 0) {
    throw Error(Errc::incompatible, "a CUDA segment of " + std::to_string(request.size) +
                                        " bytes is no multiple of the granularity of " + gpu.describe() + ", " +
                                        std::to_string(info.granularity));
  }
  if (request.size > gpu.total_memory) {
    throw Error(Errc::corrupt_descriptor, "a segment of " + std::to_string(request.size) + " bytes is larger than " +
                                              gpu.describe() + ", which has " + std::to_string(gpu.total_memory));
  }
  const ContextScope scope(gpu.context());
  auto segment = std::make_unique<VmmSegment>(gpu, info, request.size);
  const char* call = "";
  auto result = segment->mapping.import(gpu, request.fd.get(), call);
  if (result == CUDA_SUCCESS && !request.part) result = segment->mapping.map(request.size, request.read_only, call);
  refuse_import(gpu, result, call, request.size);
  segment->kind = request.memory_kind;
  segment->imported = true;
  segment->read_only = request.read_only;
  if (!request.part) segment->publish();
  (void)request.fd.trust();
  return segment.release();
}

}  // namespace weir::cuda
