// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of memory. A new one is a value and a line of text_of here, and a line of Python's _weir.pyi, which a test
// asks for.

#include <cstdint>
#include <string_view>

namespace weir {

/// Kinds of memory of all backends. `Device::kinds()` lists the kinds that a device has. The values are part of the
/// descriptor format: new ones go to the end.
enum class MemoryKind : std::uint8_t {
  pageable,     ///< host: ordinary memory
  shared,       ///< host: a sealed memfd, which other processes can map
  pinned,       ///< CUDA: page-locked host memory
  managed,      ///< CUDA: memory that migrates between host and device
  device,       ///< CUDA `cuMemAlloc`, Vulkan device-local
  async,        ///< CUDA: from a memory pool of the driver, allocated and freed in stream order
  vmm,          ///< CUDA: physical handles mapped into a reserved range; exportable
  upload,       ///< Vulkan: for the host to write and the device to read
  readback,     ///< Vulkan: for the device to write and the host to read (cached)
  mappable,     ///< Vulkan: device-local and host-visible at once
  external,     ///< made elsewhere: adopted, or imported through DLPack
};

namespace detail {

struct MemoryKindText {
  std::string_view name, about;
};

constexpr MemoryKindText text_of(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::pageable: return {"pageable", "host: ordinary memory"};
    case MemoryKind::shared: return {"shared", "host: a sealed memfd that other processes can map"};
    case MemoryKind::pinned: return {"pinned", "CUDA: page-locked host memory"};
    case MemoryKind::managed: return {"managed", "CUDA: migrates between host and device"};
    case MemoryKind::device: return {"device", "CUDA, Vulkan: on the device"};
    case MemoryKind::async: return {"async", "CUDA: driver pool, allocated and freed in stream order"};
    case MemoryKind::vmm: return {"vmm", "CUDA: mapped physical handles; exportable"};
    case MemoryKind::upload: return {"upload", "Vulkan: host writes, device reads"};
    case MemoryKind::readback: return {"readback", "Vulkan: device writes, host reads"};
    case MemoryKind::mappable: return {"mappable", "Vulkan: on the device and host-visible"};
    case MemoryKind::external: return {"external", "made elsewhere"};
  }
  return {"unknown", ""};
}

}  // namespace detail

/// Return the name of a kind, or "unknown" for a value that is none.
[[nodiscard]] constexpr std::string_view to_string(MemoryKind kind) noexcept { return detail::text_of(kind).name; }

/// Return whether a number is the value of a kind. The values are those below the first that is none.
[[nodiscard]] constexpr bool is_memory_kind(std::uint64_t value) noexcept {
  return value < 256 && !detail::text_of(static_cast<MemoryKind>(value)).about.empty();
}

}  // namespace weir
