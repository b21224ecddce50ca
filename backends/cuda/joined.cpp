// SPDX-License-Identifier: Apache-2.0
// The memory of several VMM handles, mapped one behind the other.
#include <memory>
#include <string>
#include <vector>

#include "context_scope.hpp"
#include "segment.hpp"

namespace weir::cuda {
namespace {

class Joined final : public GpuSegment {
 public:
  using GpuSegment::GpuSegment;
  ~Joined() override {
    const ReleaseScope scope(gpu().context(), gpu());
    if (reserved_ == 0 || !scope) return;
    bool leaks = false;  // memory that cannot be unmapped may still be in use
    for (const auto& [at, page] : mapped_) {
      const auto unmapped = driver().MemUnmap(at, page->size);
      report_failure(unmapped, "cuMemUnmap", gpu());
      leaks = leaks || unmapped != CUDA_SUCCESS;
    }
    if (!leaks) report_failure(driver().MemAddressFree(reserved_, size), "cuMemAddressFree", gpu());
  }

  void map(std::span<spi::Segment* const> pages) {
    const ContextScope scope(gpu().context());
    mapped_.reserve(pages.size());
    check(driver().MemAddressReserve(&reserved_, size, 0, 0, 0), "cuMemAddressReserve", size, " bytes on ", gpu());
    CUdeviceptr at = reserved_;
    for (spi::Segment* const each : pages) {
      auto page = spi::Ref<VmmSegment>::retain(static_cast<VmmSegment*>(each));
      const char* call = "";
      const auto result = map_handle(gpu(), at, page->size, page->mapping.handle(), read_only, call);
      if (page->imported) refuse_import(gpu(), result, call, page->size);
      check(result, call, page->size, " bytes on ", gpu());
      mapped_.push_back({at, std::move(page)});
      at += each->size;
    }
    place(reserved_);
  }

 private:
  struct Mapped {
    CUdeviceptr at;
    spi::Ref<VmmSegment> page;
  };

  CUdeviceptr reserved_ = 0;
  std::vector<Mapped> mapped_;
};

}  // namespace

spi::Segment* join(spi::DeviceState& device, std::span<spi::Segment* const> pages) {
  Gpu& gpu = gpu_of(device);
  std::size_t bytes = 0;
  for (const spi::Segment* const page : pages) bytes += page->size;
  auto joined = std::make_unique<Joined>(gpu, *gpu.find(pages.front()->kind), bytes);
  for (const spi::Segment* const page : pages) {
    joined->imported = joined->imported || page->imported;
    joined->read_only = joined->read_only || page->read_only;
  }
  if (joined->imported && bytes > gpu.total_memory) {
    throw Error(Errc::corrupt_descriptor, std::to_string(pages.size()) + " segments of " + std::to_string(bytes) +
                                              " bytes together are larger than " + gpu.describe() + ", which has " +
                                              std::to_string(gpu.total_memory));
  }
  joined->map(pages);
  return joined.release();
}

}  // namespace weir::cuda
