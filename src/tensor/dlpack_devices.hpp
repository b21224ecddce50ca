// SPDX-License-Identifier: Apache-2.0
#pragma once
// The devices of DLPack that memory of weir may be labelled with. A new one is a line of the table.

#include <dlpack/dlpack.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weir/fwd.hpp"
#include "weir/managed_tensor.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

struct DlpackDeviceType {
  enum class Address { none, host, device };

  std::int32_t type;
  std::string_view name;     ///< without the prefix kDL
  std::string_view backend;  ///< whose memory it is
  bool numbered;    ///< the id is the device's; otherwise it is 0, and every device of the backend reaches the memory
  Address address;  ///< which address a tensor has; with none, neither exports nor imports are possible
};

inline constexpr std::array dlpack_device_types{
    DlpackDeviceType{kDLCPU, "CPU", "host", false, DlpackDeviceType::Address::host},
    DlpackDeviceType{kDLCUDA, "CUDA", "cuda", true, DlpackDeviceType::Address::device},
    DlpackDeviceType{kDLCUDAHost, "CUDAHost", "cuda", false, DlpackDeviceType::Address::host},
    DlpackDeviceType{kDLCUDAManaged, "CUDAManaged", "cuda", false, DlpackDeviceType::Address::device},
    DlpackDeviceType{kDLVulkan, "Vulkan", "vulkan", true, DlpackDeviceType::Address::none},
};

/// Return the type of tensors in memory that a backend's devices have addresses for, or null.
[[nodiscard]] constexpr const DlpackDeviceType* find_dlpack_device_type(std::string_view backend) noexcept {
  const auto found = std::ranges::find_if(dlpack_device_types, [backend](const DlpackDeviceType& type) {
    return type.backend == backend && type.numbered && type.address == DlpackDeviceType::Address::device;
  });
  return found == dlpack_device_types.end() ? nullptr : &*found;
}

/// The lines by their types.
inline constexpr auto dlpack_device_types_by_number = [] {
  constexpr std::int32_t last = std::ranges::max(dlpack_device_types, {}, &DlpackDeviceType::type).type;
  std::array<const DlpackDeviceType*, last + 1> all{};
  for (const DlpackDeviceType& one : dlpack_device_types) all[static_cast<std::size_t>(one.type)] = &one;
  return all;
}();

/// Return the line of that type, or null.
[[nodiscard]] constexpr const DlpackDeviceType* find_dlpack_device_type(std::int32_t type) noexcept {
  const auto number = static_cast<std::size_t>(type);  // too large if it is negative
  return number < dlpack_device_types_by_number.size() ? dlpack_device_types_by_number[number] : nullptr;
}

/// Return the device that a tensor of `device` is on, if it is one that can have views of exportable memory of `owner`.
/// Else null.
[[nodiscard]] spi::DeviceState* find_dlpack_viewer(DlpackDevice device, const spi::DeviceState& owner);

/// A device and its line of the table; null if there is none.
struct KnownDlpackDevice {
  DlpackDevice device;
  const DlpackDeviceType* type;
};
/// Return what an export of the memory names unless it is asked for something else. `segment` is the buffer's, or null.
[[nodiscard]] KnownDlpackDevice find_own_dlpack_device(const Buffer& buffer, const spi::Segment* segment);
[[nodiscard]] inline KnownDlpackDevice own_dlpack_device(const Buffer& buffer, const spi::Segment* segment) {
  const auto* const type = segment ? find_dlpack_device_type(segment->dlpack_device) : nullptr;
  if (!type || type->address == DlpackDeviceType::Address::none) return find_own_dlpack_device(buffer, segment);
  return {{type->type, type->numbered ? segment->device->ordinal : 0}, type};
}

}  // namespace weir::detail
