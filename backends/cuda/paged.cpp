// SPDX-License-Identifier: Apache-2.0
// A range of addresses, with VMM handles mapped into it and unmapped again.
#include <map>
#include <memory>

#include "context_scope.hpp"
#include "segment.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::cuda {
namespace {

using Handle = CUmemGenericAllocationHandle;

class Pages final : public spi::PagedSegment {
 public:
  Pages(Gpu& gpu, const KindInfo& info, std::size_t bytes) noexcept {
    device = &gpu;
    kind = info.kind;
    size = bytes;
    device_accessible = true;
    dlpack_device = info.dlpack_device;
    page_bytes = info.granularity;
  }
  ~Pages() override {
    const ReleaseScope scope(gpu().context(), gpu());
    if (address == 0 || !scope) return;
    for (const auto& [offset, page] : pages_) end(offset, page);
    if (!leaks_) report_failure(driver().MemAddressFree(address, size), "cuMemAddressFree", gpu());
  }

  void reserve() {
    const ContextScope scope(gpu().context());
    CUdeviceptr at = 0;
    check(driver().MemAddressReserve(&at, size, 0, 0, 0), "cuMemAddressReserve", size, " bytes on ", gpu());
    address = at;
  }

  bool add_page(std::size_t offset, std::size_t bytes, Shortage& shortage) override {
    const ContextScope scope(gpu().context());
    const auto entry = pages_.emplace(offset, Page{0, bytes}).first;  // before anything is made, because this may throw
    const char* call = "";
    try {
      const auto result = make_with_room(gpu(), [&] { return make(*entry, call); });
      if (!exhausted(gpu(), result, call, bytes, gpu().total_memory, shortage)) {
        if (listener) listener->paged(static_cast<std::ptrdiff_t>(bytes));
        return true;
      }
    } catch (...) {
      pages_.erase(entry);
      throw;
    }
    pages_.erase(entry);
    return false;
  }

  void move_page(std::size_t from, std::size_t to) override {
    const ContextScope scope(gpu().context());
    const auto old = pages_.find(from);
    const auto entry = pages_.emplace(to, old->second).first;
    const char* call = "";
    auto result = map(*entry, call);
    if (result == CUDA_SUCCESS) {
      call = "cuMemUnmap";
      result = driver().MemUnmap(address + from, old->second.bytes);
      if (result != CUDA_SUCCESS) report_failure(driver().MemUnmap(address + to, entry->second.bytes), call, gpu());
    }
    if (result == CUDA_SUCCESS) {
      pages_.erase(old);
    } else {
      const auto bytes = entry->second.bytes;
      pages_.erase(entry);
      check(result, call, bytes, " bytes on ", gpu());
    }
  }

  void end_page(std::size_t offset) noexcept override {
    const auto page = pages_.find(offset);
    if (const ReleaseScope scope(gpu().context(), gpu()); scope) {
      end(offset, page->second);
    } else {
      forget(page->second);
    }
    pages_.erase(page);
  }

 private:
  struct Page {
    Handle handle;
    std::size_t bytes;
  };
  using Entry = std::pair<const std::size_t, Page>;

  [[nodiscard]] Gpu& gpu() const noexcept { return gpu_of(*device); }

  CUresult make(Entry& entry, const char*& call) {
    const auto properties = vmm_properties(gpu().ordinal, false);
    call = "cuMemCreate";
    const auto made = driver().MemCreate(&entry.second.handle, entry.second.bytes, &properties, 0);
    if (made != CUDA_SUCCESS) return made;
    const auto mapped = map(entry, call);
    if (mapped != CUDA_SUCCESS) report_failure(driver().MemRelease(entry.second.handle), "cuMemRelease", gpu());
    return mapped;
  }

  CUresult map(const Entry& entry, const char*& call) {
    const auto at = address + entry.first;
    const auto bytes = entry.second.bytes;
    call = "cuMemMap";
    if (const auto mapped = driver().MemMap(at, bytes, 0, entry.second.handle, 0); mapped != CUDA_SUCCESS)
      return mapped;
    call = "cuMemSetAccess";
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = gpu().ordinal;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const auto granted = driver().MemSetAccess(at, bytes, &access, 1);
    if (granted != CUDA_SUCCESS) report_failure(driver().MemUnmap(at, bytes), "cuMemUnmap", gpu());
    return granted;
  }

  void end(std::size_t offset, const Page& page) noexcept {
    const auto unmapped = driver().MemUnmap(address + offset, page.bytes);
    report_failure(unmapped, "cuMemUnmap", gpu());
    if (unmapped != CUDA_SUCCESS) return forget(page);
    report_failure(driver().MemRelease(page.handle), "cuMemRelease", gpu());
    count_out(page);
  }
  // Memory that cannot be unmapped is leaked together with its addresses, because it may still be in use.
  void forget(const Page& page) noexcept {
    leaks_ = true;
    count_out(page);
  }
  void count_out(const Page& page) noexcept {
    if (listener) listener->paged(-static_cast<std::ptrdiff_t>(page.bytes));
  }

  std::map<std::size_t, Page> pages_;  // by offset
  bool leaks_ = false;
};

}  // namespace

spi::PagedSegment* reserve_addresses(spi::DeviceState& device, MemoryKind kind, std::size_t bytes) {
  Gpu& gpu = gpu_of(device);
  const KindInfo& info = *gpu.find(kind);
  auto segment = spi::Ref<Pages>::adopt(
      new Pages(gpu, info, (bytes + info.granularity - 1) / info.granularity * info.granularity));
  segment->reserve();
  return segment.detach();
}

}  // namespace weir::cuda
