// SPDX-License-Identifier: Apache-2.0
#include "segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "memfd.hpp"

namespace weir::host {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

class HostSegment : public spi::Segment {
 public:
  HostSegment(spi::DeviceState& state, MemoryKind memory_kind, void* data, std::size_t bytes) {
    device = &state;
    kind = memory_kind;
    size = bytes;
    host = static_cast<std::byte*>(data);
    address = reinterpret_cast<std::uint64_t>(data);
    dlpack_device = dlpack_cpu;
  }
};

class PageableSegment final : public HostSegment {
 public:
  using HostSegment::HostSegment;

 protected:
  ~PageableSegment() override { std::free(host); }
};

class SharedSegment final : public HostSegment {
 public:
  /// `known_as` is the identity of the file. A peer cannot forge it, unlike what it says.
  SharedSegment(spi::DeviceState& state, void* data, std::size_t bytes, spi::UniqueFd file, spi::SegmentId known_as)
      : HostSegment(state, MemoryKind::shared, data, bytes), file_(std::move(file)) {
    set_id(known_as);
  }
  [[nodiscard]] spi::UniqueFd duplicate() const { return file_.duplicate(); }
  [[nodiscard]] spi::UniqueFd reader() const { return open_for_reading(file_.get()); }

 protected:
  ~SharedSegment() override { unmap(host, size); }

 private:
  spi::UniqueFd file_;
};

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

spi::Segment* reserve_pageable(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& shortage) {
  const bool huge = (request.flags & huge_pages) != 0 && request.bytes >= huge_page;
  const auto alignment = huge ? huge_page : default_alignment;
  const auto bytes = round_up(request.bytes, alignment);
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<void, Free> data(std::aligned_alloc(alignment, bytes));
  if (!data) {
    shortage.call = "aligned_alloc";
    shortage.native = {ENOMEM, std::generic_category()};
    return nullptr;
  }
  if (huge) ::madvise(data.get(), bytes, MADV_HUGEPAGE);  // a hint; refusal costs speed only
  auto* segment = new PageableSegment(device, MemoryKind::pageable, data.get(), bytes);
  (void)data.release();
  return segment;
}

spi::Segment* reserve_shared(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& shortage) {
  const auto bytes = round_up(request.bytes, page_size());
  spi::UniqueFd file = make_memfd(bytes, shortage);
  if (!file) return nullptr;
  Mapping mapping(file.get(), bytes, false);
  if (!mapping) {
    const std::error_code code(errno, std::generic_category());
    if (code != std::errc::not_enough_memory) {
      throw Error(code, "host memory of " + std::to_string(bytes) + " bytes: mmap: " + code.message());
    }
    shortage.call = "mmap";
    shortage.native = code;
    return nullptr;
  }
  const bool others_write = (request.flags & read_only_for_peers) == 0;
  seal_memfd(file.get(), others_write);  // the mapping above stays writable
  const auto identity = identity_of(file.get());
  auto* segment = new SharedSegment(device, mapping.get(), bytes, std::move(file), identity);
  segment->exportable = request.exportable;
  segment->peers_read_only = !others_write;
  mapping.release();
  return segment;
}

}  // namespace

spi::Segment* reserve(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& shortage) {
  // The kernel overcommits, so a request that could never be touched as a whole is refused here.
  if (device.total_memory != 0 && request.bytes > device.total_memory) {
    shortage.limit = device.total_memory;
    return nullptr;
  }
  return request.kind == MemoryKind::shared ? reserve_shared(device, request, shortage)
                                            : reserve_pageable(device, request, shortage);
}

spi::ExportedHandle export_handle(spi::Segment& segment) {
  return {spi::HandleKind::host_memfd, static_cast<SharedSegment&>(segment).duplicate()};
}

spi::ExportedHandle export_to_readers(spi::Segment& segment) {
  return {spi::HandleKind::host_memfd, static_cast<SharedSegment&>(segment).reader()};
}

bool imports(const spi::DeviceState& /*device*/, spi::HandleKind kind) noexcept {
  return kind == spi::HandleKind::host_memfd;
}

spi::Segment* import_handle(spi::DeviceState& device, spi::ImportRequest request) {
  check_memfd(request.fd.get(), request.size);
  Mapping mapping(request.fd.get(), request.size, request.read_only);
  if (!mapping) {
    const std::error_code code(errno, std::generic_category());
    throw Error(code,
                "cannot map " + std::to_string(request.size) + " bytes of a shared segment: mmap: " + code.message());
  }
  const auto identity = identity_of(request.fd.get());
  auto* segment = new SharedSegment(device, mapping.get(), request.size, request.fd.trust(), identity);
  mapping.release();
  segment->imported = true;
  segment->exportable = true;
  segment->read_only = request.read_only;
  return segment;
}

spi::Segment* wrap(spi::DeviceState& device, std::uint64_t address, std::size_t bytes) {
  auto* segment = new HostSegment(device, MemoryKind::external,
                                  reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes);
  segment->imported = true;
  return segment;
}

}  // namespace weir::host
