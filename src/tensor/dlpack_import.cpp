// SPDX-License-Identifier: Apache-2.0
#include <dlpack/dlpack.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "device/registry.hpp"
#include "memory/adopted.hpp"
#include "tensor/dlpack_devices.hpp"
#include "weir/dlpack.hpp"
#include "weir/error.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/dlpack.hpp"

namespace weir {
namespace {

// No process has a larger address space: five-level page tables have 57 bits.
constexpr std::uint64_t address_space = std::uint64_t{1} << 57;

[[noreturn]] void refuse(Errc condition, const std::string& why) { throw Error(condition, "from_dlpack: " + why); }

// A producer in C++ may throw, and whoever ends the last use of the memory cannot do anything about that.
template <class Managed>
void give_back(Managed* tensor) noexcept {
  try {
    if (tensor->deleter) tensor->deleter(tensor);
  } catch (const std::exception& thrown) {
    report({{}, "the deleter of a DLPack tensor", thrown.what()});
  } catch (...) {
    report({{}, "the deleter of a DLPack tensor", "threw something that is no std::exception"});
  }
}

// Owner of a producer's tensor. The tensor's deleter runs once, wherever the owner ends up.
template <class Managed>
struct GiveBack {
  void operator()(Managed* tensor) const noexcept { give_back(tensor); }
};
template <class Managed>
using Owner = std::unique_ptr<Managed, GiveBack<Managed>>;

template <class Managed>
Owner<Managed> own(Managed* tensor) {
  if (!tensor) refuse(Errc::invalid_argument, "the tensor is null");
  return Owner<Managed>(tensor);
}

// Where the type has no numbers, every device of the backend reaches the memory.
spi::DeviceState& device_of(DlpackDevice device) {
  const auto* const type = detail::find_dlpack_device_type(device.type);
  if (!type || type->address == detail::DlpackDeviceType::Address::none) {
    refuse(Errc::unsupported, "device type " + std::to_string(device.type) + " is of no backend");
  }
  if (type->backend == "host") return detail::host_state();
  for (const auto& loaded : detail::loaded_backends()) {
    if (loaded.name != type->backend) continue;
    for (auto* state : loaded.devices) {
      if (!type->numbered || state->ordinal == device.id) return *state;
    }
  }
  refuse(Errc::unsupported, "device type " + std::to_string(device.type) + ", id " + std::to_string(device.id) +
                                ": no such device of backend " + std::string(type->backend) + " in this process");
}

// Memory of no bytes has no segment that knows what it is. So it is of a kind that tensors name in the same way.
Buffer nothing(spi::DeviceState& device, std::int32_t type, const Stream& stream) {
  const auto kind = std::ranges::find(device.kinds, type, &KindInfo::dlpack_device);
  if (kind == device.kinds.end()) return detail::adopt_nothing(device, stream);
  return make_resource(Device(device), kind->kind)->allocate(0, stream);
}

Layout layout_of(const spi::ImportedTensor& tensor) {
  if (tensor.dimensions < 0 || tensor.dimensions > 64) {
    refuse(Errc::invalid_argument, std::to_string(tensor.dimensions) + " dimensions");
  }
  const auto dimensions = static_cast<std::size_t>(tensor.dimensions);
  if (dimensions > 0 && !tensor.shape) refuse(Errc::invalid_argument, "the shape is null");
  Layout layout = Layout::compact(tensor.dtype, {tensor.shape, tensor.shape + dimensions});
  if (tensor.strides) layout.strides.assign(tensor.strides, tensor.strides + dimensions);
  return layout;
}

// Return how many bytes come before element 0 because strides are negative, and move the layout up by as many.
std::size_t lift_above_zero(Layout& layout) {
  if (layout.elements() == 0) return 0;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.strides[i] >= 0) continue;
    std::uint64_t reach;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(layout.shape[i] - 1),
                               -static_cast<std::uint64_t>(layout.strides[i]), &reach) ||
        __builtin_add_overflow(below, reach, &below)) {
      refuse(Errc::invalid_argument, "the strides overflow");
    }
  }
  if (__builtin_mul_overflow(below, layout.dtype.bytes(), &below)) {
    refuse(Errc::invalid_argument, "the strides overflow");
  }
  layout.byte_offset = below;
  return below;
}

spi::ImportedTensor described(const DLTensor& tensor, std::uint64_t flags) {
  return {.device = {static_cast<std::int32_t>(tensor.device.device_type), tensor.device.device_id},
          .dtype = {tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes},
          .dimensions = tensor.ndim,
          .shape = tensor.shape,
          .strides = tensor.strides,
          .data = reinterpret_cast<std::uintptr_t>(tensor.data),
          .byte_offset = tensor.byte_offset,
          .padded = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0};
}

template <class Managed>
Tensor import(Owner<Managed> owner, std::uint64_t flags, const Stream& stream) {
  const auto release = [managed = owner.get()] { give_back(managed); };  // small, so that the function takes no memory
  const bool read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  struct Unless {
    Owner<Managed>& owner;
    bool releases = false;
    ~Unless() {
      if (releases) (void)owner.release();
    }
  } taken{owner};
  return spi::import_tensor(described(owner->dl_tensor, flags), read_only, release, stream, taken.releases);
}

}  // namespace

Tensor spi::import_tensor(const ImportedTensor& tensor, bool read_only, std::function<void()> release,
                          const Stream& stream, bool& releases) {
  releases = false;
  (void)stream.state();
  if (tensor.padded && tensor.dtype.bits % 8 != 0) {
    refuse(Errc::unsupported, "each lane of its " + tensor.dtype.to_string() +
                                  " elements is padded to whole bytes; only packed ones have a layout here");
  }
  Layout layout = layout_of(tensor);
  const auto below = lift_above_zero(layout);
  const auto bytes = layout.bytes_needed();
  auto& device = device_of(tensor.device);
  if (bytes == 0) return {nothing(device, tensor.device.type, stream), std::move(layout)};
  if (tensor.data == 0)
    refuse(Errc::invalid_argument, "the data is null but " + std::to_string(bytes) + " bytes are needed");
  std::uint64_t begin = tensor.data;
  if (__builtin_add_overflow(begin, tensor.byte_offset, &begin) || below > begin || begin > address_space ||
      bytes > address_space - begin) {
    refuse(Errc::invalid_argument, std::to_string(bytes) + " bytes at byte offset " +
                                       std::to_string(tensor.byte_offset) + " leave the address space");
  }
  Buffer buffer = detail::adopt_address(device, begin - below, bytes, read_only, std::move(release), stream);
  releases = true;
  return {std::move(buffer), std::move(layout)};
}

Tensor from_dlpack(DLManagedTensorVersioned* tensor, const Stream& stream) {
  auto owner = own(tensor);
  if (tensor->version.major != DLPACK_MAJOR_VERSION) {
    refuse(Errc::incompatible, "the tensor has DLPack version " + std::to_string(tensor->version.major) + "." +
                                   std::to_string(tensor->version.minor) + ", this is " +
                                   std::to_string(DLPACK_MAJOR_VERSION) + "." + std::to_string(DLPACK_MINOR_VERSION));
  }
  return import(std::move(owner), tensor->flags, stream);
}

Tensor from_dlpack(DLManagedTensor* tensor, const Stream& stream, LegacyAccess access) {
  return import(own(tensor), access == LegacyAccess::read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0, stream);
}

void give_back(DLManagedTensor* tensor) noexcept {
  if (tensor) give_back<DLManagedTensor>(tensor);
}

}  // namespace weir
