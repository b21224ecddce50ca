// SPDX-License-Identifier: Apache-2.0
#include <dlpack/dlpack.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "copy/checks.hpp"
#include "tensor/dlpack_devices.hpp"
#include "tensor/export.hpp"
#include "weir/dlpack.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

using detail::Export;

// May run on any thread, without any interpreter's lock, and while the process ends.
void delete_export(DLManagedTensorVersioned* tensor) noexcept {
  Export::recycle(static_cast<Export*>(tensor->manager_ctx));
}

struct LegacyExport {
  DLManagedTensor managed{};
  DLManagedTensorVersioned* whole;
};

void delete_legacy(DLManagedTensor* tensor) noexcept {
  const std::unique_ptr<LegacyExport> owner(static_cast<LegacyExport*>(tensor->manager_ctx));
  if (owner->whole->deleter) owner->whole->deleter(owner->whole);
}

using detail::DlpackDeviceType;

std::int32_t device_type_of(const Buffer& buffer, const spi::Segment* segment) {
  if (segment && segment->dlpack_device != 0) return segment->dlpack_device;
  const KindInfo* info = buffer.device().find(buffer.kind());
  return info ? info->dlpack_device : std::int32_t{kDLCPU};
}

void* data_of(const detail::Operand& opened, const DlpackDeviceType* type, std::size_t byte_offset) {
  using Address = DlpackDeviceType::Address;
  const spi::Segment& segment = *opened.block->segment;
  const std::size_t at = opened.begin + byte_offset;
  if (type && type->address == Address::device) {
    const std::uint64_t address = segment.address == 0 ? 0 : segment.address + at;
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  }
  if (type && type->address == Address::host) return segment.host ? segment.host + at : nullptr;
  throw Error(Errc::unsupported, "Tensor::to_dlpack: " + segment.device->describe() + " memory of kind " +
                                     std::string(to_string(segment.kind)) +
                                     " is not addressable by other frameworks; copy it to a host-visible kind first");
}

}  // namespace

DlpackDevice dlpack_device(const Buffer& buffer) {
  const std::int32_t type = device_type_of(buffer, buffer.location().segment);
  const auto* const known = detail::find_dlpack_device_type(type);
  return {type, known && known->numbered ? buffer.device().ordinal() : 0};
}

std::string_view dlpack_device_name(std::int32_t type) noexcept {
  const auto* const known = detail::find_dlpack_device_type(type);
  return known ? known->name : std::string_view{};
}

ManagedTensor Tensor::to_dlpack(const Stream& stream, const DlpackOptions& options) const {
  const auto opened = detail::open_operand("Tensor::to_dlpack", buffer_);
  auto& consumer = stream.state();
  spi::Block& block = *opened.block;
  const bool read_only = options.read_only || (block.segment && block.segment->read_only);
  const std::int32_t device_type = device_type_of(buffer_, block.segment);
  const auto* const type = detail::find_dlpack_device_type(device_type);

  Export::Owner owner = Export::take(layout_);
  block.owners.fetch_add(1, std::memory_order_relaxed);
  owner->hold(block);
  // The memory keeps its allocation stream and ends in order of it. Only an application's stream has to be named.
  const bool at_home = &consumer == block.stream;
  if (!at_home || consumer.has_work_from_outside()) owner->consumer = stream;
  DLManagedTensorVersioned& managed = owner->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.manager_ctx = owner.get();
  managed.deleter = &delete_export;
  managed.flags = read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  DLTensor& tensor = managed.dl_tensor;
  const bool empty = opened.size == 0 || std::ranges::find(layout_.shape, 0) != layout_.shape.end();
  tensor.data = empty ? nullptr : data_of(opened, type, layout_.byte_offset);
  tensor.device = {static_cast<DLDeviceType>(device_type), type && type->numbered ? buffer_.device().ordinal() : 0};
  tensor.ndim = static_cast<std::int32_t>(layout_.shape.size());
  tensor.dtype = {layout_.dtype.code, layout_.dtype.bits, layout_.dtype.lanes};
  tensor.shape = owner->shape();
  tensor.strides = owner->strides();
  tensor.byte_offset = 0;
  if (!at_home) block.used(consumer, 0);
  if (at_home && block.never_left_home()) return ManagedTensor(&owner.release()->managed);
  for (const spi::Point& use : block.uses_before(consumer)) consumer.put(spi::WaitOp{use.stream, use.value});
  return ManagedTensor(&owner.release()->managed);
}

ManagedTensor::ManagedTensor(ManagedTensor&& other) noexcept : tensor_(other.release()) {}

ManagedTensor& ManagedTensor::operator=(ManagedTensor&& other) noexcept {
  std::swap(tensor_, other.tensor_);
  return *this;
}

ManagedTensor::~ManagedTensor() {
  if (tensor_ && tensor_->deleter) tensor_->deleter(tensor_);
}

DLManagedTensorVersioned* ManagedTensor::release() noexcept { return std::exchange(tensor_, nullptr); }

DLManagedTensor* ManagedTensor::release_legacy() {
  if (!tensor_) throw Error(Errc::closed, "ManagedTensor::release_legacy: already released");
  if (tensor_->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
    throw Error(Errc::incompatible,
                "ManagedTensor::release_legacy: DLPack before 1.0 cannot say that a tensor is read-only");
  }
  auto* legacy = new LegacyExport{{}, nullptr};
  legacy->managed = {tensor_->dl_tensor, legacy, [](DLManagedTensor* tensor) { delete_legacy(tensor); }};
  legacy->whole = release();
  return &legacy->managed;
}

}  // namespace weir
