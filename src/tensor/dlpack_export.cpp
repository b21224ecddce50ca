// SPDX-License-Identifier: Apache-2.0
#include <dlpack/dlpack.h>

#include <memory>
#include <utility>

#include "tensor/dlpack_devices.hpp"
#include "weir/dlpack.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

// The tensor, the layout to which it points, and the owner of the memory, in one allocation. The dimensions of the
// layout are allocated apart.
struct Export {
  DLManagedTensorVersioned managed{};
  Layout layout;
  Buffer buffer;
  Stream consumer;

  Export(Layout l, Buffer b, Stream s) : layout(std::move(l)), buffer(std::move(b)), consumer(std::move(s)) {}
};

// May run on any thread, without any interpreter's lock, and while the process ends.
void delete_export(DLManagedTensorVersioned* tensor) noexcept {
  const std::unique_ptr<Export> owner(static_cast<Export*>(tensor->manager_ctx));
  owner->buffer.close(owner->consumer);  // needs no memory, because to_dlpack recorded the stream
}

struct LegacyExport {
  DLManagedTensor managed{};
  DLManagedTensorVersioned* whole;
};

void delete_legacy(DLManagedTensor* tensor) noexcept {
  const std::unique_ptr<LegacyExport> owner(static_cast<LegacyExport*>(tensor->manager_ctx));
  if (owner->whole->deleter) owner->whole->deleter(owner->whole);
}

void* data_of(const Buffer& buffer, std::int32_t device_type, std::size_t byte_offset) {
  using Address = detail::DlpackDeviceType::Address;
  if (buffer.size() == 0) return nullptr;
  const auto* const type = detail::find_dlpack_device_type(device_type);
  if (type && type->address == Address::device) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer.device_address() + byte_offset));
  }
  if (type && type->address == Address::host) return buffer.host_data() + byte_offset;
  throw Error(Errc::unsupported, "Tensor::to_dlpack: " + buffer.device().state().describe() + " memory of kind " +
                                     std::string(to_string(buffer.kind())) +
                                     " is not addressable by other frameworks; copy it to a host-visible kind first");
}

}  // namespace

DlpackDevice dlpack_device(const Buffer& buffer) {
  const auto location = buffer.location();
  std::int32_t type = location.segment ? location.segment->dlpack_device : 0;
  if (type == 0) {
    const KindInfo* info = buffer.device().find(buffer.kind());
    type = info ? info->dlpack_device : std::int32_t{kDLCPU};
  }
  const auto* const known = detail::find_dlpack_device_type(type);
  return {type, known && known->numbered ? buffer.device().ordinal() : 0};
}

std::string_view dlpack_device_name(std::int32_t type) noexcept {
  const auto* const known = detail::find_dlpack_device_type(type);
  return known ? known->name : std::string_view{};
}

ManagedTensor Tensor::to_dlpack(const Stream& stream, const DlpackOptions& options) const {
  const auto label = dlpack_device(buffer_);
  auto owner = std::make_unique<Export>(layout_, buffer_.share(), stream);
  const bool empty = layout_.elements() == 0;
  DLManagedTensorVersioned& managed = owner->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.manager_ctx = owner.get();
  managed.deleter = [](DLManagedTensorVersioned* tensor) { delete_export(tensor); };
  if (options.read_only || buffer_.is_read_only()) managed.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  DLTensor& tensor = managed.dl_tensor;
  tensor.data = empty ? nullptr : data_of(buffer_, label.type, layout_.byte_offset);
  tensor.device = {static_cast<DLDeviceType>(label.type), label.id};
  tensor.ndim = static_cast<std::int32_t>(layout_.shape.size());
  tensor.dtype = {layout_.dtype.code, layout_.dtype.bits, layout_.dtype.lanes};
  tensor.shape = owner->layout.shape.data();
  tensor.strides = owner->layout.strides.data();
  owner->buffer.block()->used(stream.state(), 0);
  buffer_.order_after_uses(stream);
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
