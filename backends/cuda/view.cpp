// SPDX-License-Identifier: Apache-2.0
// Memory of a Vulkan device on the same GPU, at an address of CUDA's.
#include "blocking_frees.hpp"
#include "context_scope.hpp"
#include "segment.hpp"

namespace weir::cuda {
namespace {

class View final : public GpuSegment {
 public:
  View(Gpu& gpu, const spi::Segment& of) noexcept
      : GpuSegment(gpu, KindInfo{.kind = MemoryKind::external, .dlpack_device = dlpack_cuda}, of.size) {
    read_only = of.read_only;
  }
  // The driver wants the address freed, then the import ended, and then the memory itself given back. The first of
  // these may have to be put off, and so the memory stays until then.
  ~View() override {
    if (!memory_.external) return;
    memory_.source = take_source();
    BlockingFrees::get().free(std::move(memory_));
  }

  /// Open the memory. The handle's file is closed here unless the driver takes it. Throws.
  void open(const spi::Segment& of, spi::ExportedHandle handle) {
    auto& frees = BlockingFrees::get();
    frees.expect();
    const char* call = "";
    const CUresult result = import(std::move(handle), call);
    if (result == CUDA_SUCCESS) return place(memory_.address);
    if (memory_.external)
      report_failure(driver().DestroyExternalMemory(memory_.external), "cuDestroyExternalMemory", gpu());
    memory_.external = nullptr;
    frees.forget();
    check(result, call, "view of ", size, " bytes of ", *of.device, " on ", gpu());
  }

 private:
  CUresult import(spi::ExportedHandle handle, const char*& call) {
    call = "cuImportExternalMemory";
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory{};
    memory.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    memory.handle.fd = handle.fd.get();
    memory.size = handle.allocation;
    memory.flags = handle.dedicated ? CUDA_EXTERNAL_MEMORY_DEDICATED : 0;
    const auto result = driver().ImportExternalMemory(&memory_.external, &memory);
    if (result != CUDA_SUCCESS) {
      memory_.external = nullptr;
      return result;
    }
    (void)handle.fd.release();  // the driver's from now on
    call = "cuExternalMemoryGetMappedBuffer";
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole{};
    whole.size = size;
    return driver().ExternalMemoryGetMappedBuffer(&memory_.address, memory_.external, &whole);
  }

  BlockingFrees::Memory memory_{.gpu = &gpu(), .kind = kind, .bytes = size};
};

}  // namespace

bool views(const spi::DeviceState& /*device*/, spi::HandleKind kind) noexcept {
  return kind == spi::HandleKind::vulkan_opaque_fd;
}

spi::Segment* open_view(spi::DeviceState& device, const spi::Segment& of, spi::ExportedHandle handle) {
  Gpu& gpu = gpu_of(device);
  const ContextScope scope(gpu.context());
  auto view = std::make_unique<View>(gpu, of);
  view->open(of, std::move(handle));
  return view.release();
}

}  // namespace weir::cuda
