// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory from the driver, with one class for each way of giving it back.

#include <span>

#include "device.hpp"
#include "driver_pools.hpp"
#include "weir/error.hpp"
#include "weir/spi/segment.hpp"

namespace weir::cuda {

/// Return whether the memory is on the device. Other devices reach such memory only where access was enabled.
inline bool on_device(const spi::Segment& segment) noexcept { return segment.dlpack_device == dlpack_cuda; }
/// Return whether this is page-locked host memory. The driver runs copies between two such places on the calling
/// thread.
inline bool on_host(const spi::Segment& segment) noexcept { return segment.dlpack_device == dlpack_cuda_host; }

/// Base of the segments whose memory the driver gives in one piece.
class GpuSegment : public spi::Segment {
 public:
  GpuSegment(Gpu& gpu, const KindInfo& info, std::size_t bytes) noexcept;
  [[nodiscard]] Gpu& gpu() const noexcept { return gpu_of(*device); }

 protected:
  /// Set the address and, for kinds that have one, the host address.
  void place(CUdeviceptr at, void* host_address = nullptr) noexcept;
};

/// One physical handle, mapped into a range of addresses of its own, or into none. The destructor undoes as much as was
/// done.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  /// Make new physical memory. On failure, `call` names the function that refused.
  CUresult make(Gpu& gpu, std::size_t bytes, bool exportable, const char*& call);
  /// The same, and map the memory with access for `gpu`.
  CUresult create(Gpu& gpu, std::size_t bytes, bool exportable, const char*& call);
  /// Take the physical memory that a file descriptor names. On failure, `call` names the function that refused. Throws
  /// incompatible when the memory is another device's.
  CUresult import(Gpu& gpu, int fd, const char*& call);
  /// Map the physical memory, all of it. On failure, `call` names the function that refused.
  CUresult map(std::size_t bytes, bool read_only, const char*& call);

  [[nodiscard]] CUdeviceptr address() const noexcept { return address_; }
  [[nodiscard]] CUmemGenericAllocationHandle handle() const noexcept { return handle_; }

 private:
  Gpu* gpu_ = nullptr;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  std::size_t size_ = 0;
  bool created_ = false, mapped_ = false;
};

/// Memory that a VMM handle names, made by this process or by another one.
class VmmSegment final : public GpuSegment {
 public:
  using GpuSegment::GpuSegment;
  void publish() noexcept { place(mapping.address()); }
  Mapping mapping;
};

/// Map the physical memory at `address`, a whole multiple of the device's granularity. Only its own device has access.
/// On failure, nothing is mapped, and `call` names the function that refused.
CUresult map_handle(Gpu& gpu, CUdeviceptr address, std::size_t bytes, CUmemGenericAllocationHandle handle,
                    bool read_only, const char*& call);

/// Throw if `call` refused to take or to map another process's memory of so many bytes.
void refuse_import(const Gpu& gpu, CUresult result, const char* call, std::size_t bytes);

/// Have the driver free memory that nobody uses any more. True when there was some.
bool make_room(Gpu& gpu) noexcept;
/// Call `make`, and again while memory is exhausted and there is room to make, a few times at most. Return its result.
template <class Make>
CUresult make_with_room(Gpu& gpu, Make make) {
  constexpr int most = 4;
  for (int i = 0;; ++i) {
    const auto ended = gpu.pools().ended();  // read first, because pools may end meanwhile
    const auto result = make();
    if (result != CUDA_ERROR_OUT_OF_MEMORY || i == most) return result;
    if (!make_room(gpu) && gpu.pools().ended() == ended) return result;
  }
}
/// Return whether memory is exhausted; if so, fill `shortage`. Throws for failures of other sorts.
bool exhausted(Gpu& gpu, CUresult result, const char* call, std::size_t bytes, std::size_t limit, Shortage& shortage);

/// SegmentRequest::flags of VMM memory that other backends' devices may have views of.
constexpr std::uint64_t viewed_by_others = 1;

/// Entries of the backend's SegmentOps, which states their contract.
spi::Segment* reserve(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& shortage);
std::shared_ptr<spi::Source> source(spi::DeviceState& device, MemoryKind kind);
spi::PagedSegment* reserve_addresses(spi::DeviceState& device, MemoryKind kind, std::size_t bytes, bool exportable);
spi::ExportedHandle export_handle(spi::Segment& segment);
bool imports(const spi::DeviceState& device, spi::HandleKind kind) noexcept;
spi::Segment* import_handle(spi::DeviceState& device, spi::ImportRequest request);
spi::Segment* join(spi::DeviceState& device, std::span<spi::Segment* const> pages);
bool views(const spi::DeviceState& device, spi::HandleKind kind) noexcept;
spi::Segment* open_view(spi::DeviceState& device, const spi::Segment& of, spi::ExportedHandle handle);
spi::Segment* wrap(spi::DeviceState& device, std::uint64_t address, std::size_t bytes);

}  // namespace weir::cuda
