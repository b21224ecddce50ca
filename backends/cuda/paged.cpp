// SPDX-License-Identifier: Apache-2.0
// A range of addresses, with VMM handles mapped into it and unmapped again.
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "context_scope.hpp"
#include "segment.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::cuda {
namespace {

class Pages final : public spi::PagedSegment {
 public:
  Pages(Gpu& gpu, const KindInfo& info, std::size_t bytes, bool exported) : info_(info) {
    device = &gpu;
    kind = info.kind;
    size = bytes;
    device_accessible = true;
    exportable = exported;
    dlpack_device = info.dlpack_device;
    page_bytes = info.granularity;
  }
  ~Pages() override {
    const ReleaseScope scope(gpu().context(), gpu());
    if (address == 0 || !scope) return;
    bool leaks = false;
    for (Entries* const all : {&pages_, &stuck_}) {
      for (auto& [offset, page] : *all) leaks |= !unmap(offset, page->size);
    }
    if (listener) {
      for (auto& [offset, page] : pages_) listener->paged(-static_cast<std::ptrdiff_t>(page->size));
    }
    if (!leaks) report_failure(driver().MemAddressFree(address, size), "cuMemAddressFree", gpu());
  }

  void reserve() {
    const ContextScope scope(gpu().context());
    CUdeviceptr at = 0;
    check(driver().MemAddressReserve(&at, size, 0, 0, 0), "cuMemAddressReserve", size, " bytes on ", gpu());
    address = at;
  }

  bool add_page(std::size_t offset, std::size_t bytes, Shortage& shortage) override {
    const ContextScope scope(gpu().context());
    make_bare(offset, bytes);
    const auto entry = put(offset, {});  // before anything is made, because this may throw
    const char* call = "";
    try {
      const auto result = make_with_room(gpu(), [&] { return make(*entry, bytes, call); });
      if (!exhausted(gpu(), result, call, bytes, gpu().total_memory, shortage)) {
        if (listener) listener->paged(static_cast<std::ptrdiff_t>(bytes));
        return true;
      }
    } catch (...) {
      take(entry);
      throw;
    }
    take(entry);
    return false;
  }

  void move_page(std::size_t from, std::size_t to) override {
    const ContextScope scope(gpu().context());
    const auto old = pages_.find(from);
    const std::size_t bytes = old->second->size;
    make_bare(to, bytes);
    const auto entry = put(to, old->second);
    const char* call = "";
    auto result = map(*entry, call);
    if (result == CUDA_SUCCESS) {
      call = "cuMemUnmap";
      result = driver().MemUnmap(address + from, bytes);
      if (result != CUDA_SUCCESS) report_failure(driver().MemUnmap(address + to, bytes), call, gpu());
    }
    take(result == CUDA_SUCCESS ? old : entry);
    if (result != CUDA_SUCCESS) check(result, call, bytes, " bytes on ", gpu());
  }

  void end_page(std::size_t offset) noexcept override {
    const auto entry = pages_.find(offset);
    const std::size_t bytes = entry->second->size;
    const ReleaseScope scope(gpu().context(), gpu());
    if (scope && unmap(offset, bytes)) {
      take(entry);
    } else {
      const std::scoped_lock lock(list_);
      stuck_.insert(pages_.extract(entry));
    }
    if (listener) listener->paged(-static_cast<std::ptrdiff_t>(bytes));
  }

  Held hold(std::size_t offset, std::size_t bytes) override {
    const std::scoped_lock lock(list_);
    auto page = std::prev(pages_.upper_bound(offset));
    Held held{{}, offset - page->first};
    for (const std::size_t end = offset + bytes; page != pages_.end() && page->first < end; ++page)
      held.pages.push_back(spi::Ref<spi::Segment>::retain(page->second.get()));
    return held;
  }

 private:
  using Page = spi::Ref<VmmSegment>;
  using Entries = std::map<std::size_t, Page>;  // by offset

  [[nodiscard]] Gpu& gpu() const noexcept { return gpu_of(*device); }

  Entries::iterator put(std::size_t offset, Page page) {
    const std::scoped_lock lock(list_);
    return pages_.emplace(offset, std::move(page)).first;
  }
  Page take(Entries::iterator entry) noexcept {
    const std::scoped_lock lock(list_);
    Page page = std::move(entry->second);
    pages_.erase(entry);
    return page;
  }

  CUresult make(Entries::value_type& entry, std::size_t bytes, const char*& call) {
    auto page = Page::adopt(new VmmSegment(gpu(), info_, bytes));
    page->exportable = exportable;
    const auto made = page->mapping.make(gpu(), bytes, exportable, call);
    if (made != CUDA_SUCCESS) return made;
    entry.second = std::move(page);
    const auto mapped = map(entry, call);
    if (mapped != CUDA_SUCCESS) entry.second = {};
    return mapped;
  }

  CUresult map(const Entries::value_type& entry, const char*& call) {
    const VmmSegment& page = *entry.second;
    return map_handle(gpu(), address + entry.first, page.size, page.mapping.handle(), false, call);
  }

  bool unmap(std::size_t offset, std::size_t bytes) noexcept {
    const auto unmapped = driver().MemUnmap(address + offset, bytes);
    report_failure(unmapped, "cuMemUnmap", gpu());
    return unmapped == CUDA_SUCCESS;
  }
  // Unmap what the driver refused to unmap before. Throws if it still does.
  void make_bare(std::size_t offset, std::size_t bytes) {
    auto entry = stuck_.lower_bound(offset);
    if (entry != stuck_.begin() && std::prev(entry)->first + std::prev(entry)->second->size > offset) --entry;
    while (entry != stuck_.end() && entry->first < offset + bytes) {
      const std::size_t mapped = entry->second->size;
      check(driver().MemUnmap(address + entry->first, mapped), "cuMemUnmap", mapped, " bytes on ", gpu());
      entry = stuck_.erase(entry);
    }
  }

  const KindInfo& info_;
  Entries pages_;
  // Ended, but still mapped. They are unmapped when their addresses are needed. What is mapped in the end is leaked
  // together with the addresses, because it may still be in use.
  Entries stuck_;
};

}  // namespace

spi::PagedSegment* reserve_addresses(spi::DeviceState& device, MemoryKind kind, std::size_t bytes, bool exportable) {
  Gpu& gpu = gpu_of(device);
  const KindInfo& info = *gpu.find(kind);
  auto segment = spi::Ref<Pages>::adopt(
      new Pages(gpu, info, (bytes + info.granularity - 1) / info.granularity * info.granularity, exportable));
  segment->reserve();
  return segment.detach();
}

}  // namespace weir::cuda
