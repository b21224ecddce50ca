// SPDX-License-Identifier: Apache-2.0
#include <dlpack/dlpack.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "copy/checks.hpp"
#include "tensor/dlpack_devices.hpp"
#include "tensor/export.hpp"
#include "weir/dlpack.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/dlpack.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/spi/view.hpp"

namespace weir {
namespace {

using detail::DlpackDeviceType;
using detail::Export;
using detail::KnownDlpackDevice;

// Deleters may run on any thread, without any interpreter's lock, and while the process ends.

void delete_export(DLManagedTensorVersioned* tensor) noexcept {
  Export::recycle(static_cast<Export*>(tensor->manager_ctx));
}

void delete_legacy_export(DLManagedTensor* tensor) noexcept {
  Export::recycle(static_cast<Export*>(tensor->manager_ctx));
}

// A tensor that others made, in the struct of DLPack before 1.0.
struct Foreign {
  DLManagedTensor managed{};
  DLManagedTensorVersioned* whole;
};

void delete_foreign(DLManagedTensor* tensor) noexcept {
  const std::unique_ptr<Foreign> owner(static_cast<Foreign*>(tensor->manager_ctx));
  if (owner->whole->deleter) owner->whole->deleter(owner->whole);
}

// Return the address of the segment on the device, which may be another backend's. 0 when it has none.
std::uint64_t address_on(spi::Segment& segment, const KnownDlpackDevice& as) {
  if (as.device.type == segment.dlpack_device || as.type->backend == segment.device->backend->name)
    return segment.address;
  spi::DeviceState* const viewer = detail::find_dlpack_viewer(as.device, *segment.device);
  return viewer ? spi::view(*viewer, segment).address : 0;
}

[[noreturn]] void refuse_to_address(const spi::Segment& segment) {
  throw Error(Errc::unsupported,
              "Tensor::to_dlpack: " + segment.device->describe() + " memory of kind " +
                  std::string(to_string(segment.kind)) + " is not addressable by other frameworks; " +
                  (spi::viewer_of(*segment.device) ? "make its resource exportable, or copy it to a host-visible kind"
                                                   : "copy it to a host-visible kind") +
                  " first");
}

// The functions that nearly every export needs are compiled into their callers.

[[gnu::always_inline]] inline void* data_of(const detail::Operand& opened, const KnownDlpackDevice& as,
                                            std::size_t byte_offset) {
  using Address = DlpackDeviceType::Address;
  spi::Segment& segment = *opened.block->segment;
  const std::size_t at = opened.begin + byte_offset;
  if (as.type && as.type->address == Address::device) {
    if (const auto address = address_on(segment, as))
      return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address + at));
  }
  if (as.type && as.type->address == Address::host && segment.host) return segment.host + at;
  refuse_to_address(segment);
}

// Everything but shape and strides.
[[gnu::always_inline]] inline void describe(DLTensor& tensor, const detail::Operand& opened,
                                            const spi::Elements& elements, bool empty, const KnownDlpackDevice& as) {
  tensor.data = empty || opened.size == 0 ? nullptr : data_of(opened, as, elements.byte_offset);
  tensor.device = {static_cast<DLDeviceType>(as.device.type), as.device.id};
  tensor.dtype = {elements.dtype.code, elements.dtype.bits, elements.dtype.lanes};
  tensor.byte_offset = 0;
}

// Copy shape and strides. Return whether there are no elements.
[[gnu::always_inline]] inline bool copy_layout(DLTensor& tensor, const spi::Elements& elements) {
  bool empty = false;
  for (std::size_t i = 0; i < elements.shape.size(); ++i) {  // few: a call for them takes longer
    tensor.shape[i] = elements.shape[i];
    tensor.strides[i] = elements.strides[i];
    empty |= elements.shape[i] == 0;
  }
  return empty;
}

void wait_for_uses(spi::Block& block, spi::StreamState& follower) {
  for (const spi::Point& use : block.uses_before(&follower)) follower.put(spi::WaitOp{use.stream, use.value});
}

// Let the consumer wait, and record whose work comes before the end of the export. The memory keeps its allocation
// stream and ends in order of it. The application may destroy a stream of its own as soon as this call is over.
void order(Export& made, spi::Block& block, const Stream& stream) {
  auto& consumer = stream.state();
  if (auto other = consumer.stand_in()) {
    block.used(*other, 0);
    made.outlive(std::move(other));
  } else {
    block.used(consumer, 0);
    made.follow(stream);
  }
  wait_for_uses(block, consumer);
}

// As order(). Most consumers are on the allocation stream, which needs no record.
[[gnu::always_inline]] inline void order_usually(Export& made, spi::Block& block, const Stream& stream) {
  auto& consumer = stream.state();
  const bool at_home = &consumer == block.stream && !consumer.has_work_from_outside();
  if (!at_home) return order(made, block, stream);
  if (!block.never_left_home()) [[unlikely]]
    wait_for_uses(block, consumer);
}

// Return whether the export names memory of the host that does not show by itself what a device wrote.
[[gnu::always_inline]] inline bool needs_showing(const spi::Segment* segment, const KnownDlpackDevice& as) {
  return segment && !segment->host_coherent && as.type && as.type->address == DlpackDeviceType::Address::host;
}

// Return what the elements reach of the memory. No more is shown to the host and to devices, because what one of them
// writes beside the elements would be lost.
detail::Operand reached(const detail::Operand& opened, const spi::Elements& elements) {
  const auto range = spi::reach_of(elements);
  return {opened.block, opened.begin + range.offset, range.bytes};
}

// Show the host, in order of the consumer's stream, what devices wrote before.
void show_to_host(const detail::Operand& shown, spi::StreamState& consumer) {
  if (shown.size == 0) return;
  auto segment = spi::Ref<spi::Segment>::retain(shown.block->segment);
  const auto show = [segment = std::move(segment), at = shown.begin, bytes = shown.size] {
    segment->before_host_read(at, bytes);
  };
  consumer.put(spi::CallOp{show, true});
}

spi::Elements elements_of(const Layout& layout) {
  return {layout.dtype, layout.shape, layout.strides, layout.byte_offset};
}

std::uint64_t flags_of(const DlpackOptions& options, const spi::DlpackRoute& route) {
  return (options.read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) | (route.copies ? DLPACK_FLAG_BITMASK_IS_COPIED : 0);
}

void wait_for_uses(const Tensor& tensor) {
  spi::Block& block = *tensor.buffer().block();
  for (const spi::Point& use : block.uses_before(nullptr)) {
    const Event event(spi::Ref<spi::StreamState>::retain(use.stream.get()), use.value);
    event.wait();
  }
  const auto shown = reached(detail::open_operand("Tensor::to_dlpack", tensor.buffer()), elements_of(tensor.layout()));
  if (shown.size != 0) block.segment->before_host_read(shown.begin, shown.size);
}

[[gnu::always_inline]] inline ManagedTensor make_export(const detail::Operand& opened, const spi::Elements& elements,
                                                        const KnownDlpackDevice& as, std::uint64_t flags,
                                                        const Stream* consumer) {
  spi::Block& block = *opened.block;
  spi::Segment* const segment = block.segment;
  Export::Owner owner = Export::take(elements.shape.size());
  block.owners.fetch_add(1, std::memory_order_relaxed);  // before much is written, for which it would wait
  owner->hold(block);
  DLManagedTensorVersioned& managed = owner->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.manager_ctx = owner.get();
  managed.deleter = &delete_export;
  managed.flags = flags | (segment && segment->read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
  const bool empty = copy_layout(managed.dl_tensor, elements);
  describe(managed.dl_tensor, opened, elements, empty, as);
  const bool shows = needs_showing(segment, as);
  const auto shown = shows ? reached(opened, elements) : detail::Operand{};
  if (shows && !(managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY)) owner->show_writes(shown.begin, shown.size);
  if (consumer) {
    order_usually(*owner, block, *consumer);
    if (shows) [[unlikely]]
      show_to_host(shown, consumer->state());
  }
  return ManagedTensor(&owner.release()->managed);
}

}  // namespace

ManagedTensor spi::export_elements(const Buffer& buffer, const Elements& elements, DlpackDevice device,
                                   std::uint64_t flags, const Stream* consumer) {
  return make_export(detail::open_operand("Tensor::to_dlpack", buffer), elements,
                     {device, detail::find_dlpack_device_type(device.type)}, flags, consumer);
}

ManagedTensor Tensor::to_dlpack(const Stream& stream, const DlpackOptions& options) const& {
  if (!options.device && options.copy != DlpackCopy::always) {  // what nearly every export is
    const auto opened = detail::open_operand("Tensor::to_dlpack", buffer_);
    return make_export(opened, elements_of(layout_), detail::own_dlpack_device(buffer_, opened.block->segment),
                       options.read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0, &stream);
  }
  const auto route = spi::dlpack_route(buffer_, options);
  const auto flags = flags_of(options, route);
  if (!route.copies) return spi::export_elements(buffer_, elements_of(layout_), route.device, flags, &stream);
  const Tensor copy = spi::dlpack_copy(*this, route, stream);
  return spi::export_elements(copy.buffer(), elements_of(copy.layout()), route.device, flags, &stream);
}

ManagedTensor Tensor::to_dlpack(const Stream& stream, const DlpackOptions& options) && {
  ManagedTensor made = std::as_const(*this).to_dlpack(stream, options);
  buffer_.close();
  return made;
}

ManagedTensor Tensor::to_dlpack_after_wait(const DlpackOptions& options) const {
  const auto route = spi::dlpack_route(buffer_, options);
  const auto flags = flags_of(options, route);
  const auto complete = [&](const Tensor& shown) {
    wait_for_uses(shown);
    return spi::export_elements(shown.buffer(), elements_of(shown.layout()), route.device, flags, nullptr);
  };
  return route.copies ? complete(spi::dlpack_copy(*this, route, Stream(buffer_.device()))) : complete(*this);
}

BorrowedTensor Tensor::lend_dlpack(const Stream& stream, std::optional<DlpackDevice> device) const {
  const auto route = spi::dlpack_route(buffer_, {.device = device, .copy = DlpackCopy::never});
  const auto opened = detail::open_operand("Tensor::lend_dlpack", buffer_);
  if (buffer_.is_read_only())
    throw Error(Errc::incompatible, "Tensor::lend_dlpack: a DLTensor cannot say that a tensor is read-only");
  BorrowedTensor lent;
  static_assert(sizeof(DLTensor) == sizeof lent.memory_ && alignof(DLTensor) <= alignof(BorrowedTensor));
  auto* const tensor = new (lent.memory_.data()) DLTensor{};
  const KnownDlpackDevice as{route.device, detail::find_dlpack_device_type(route.device.type)};
  describe(*tensor, opened, elements_of(layout_), std::ranges::find(layout_.shape, 0) != layout_.shape.end(), as);
  // DLPack's structs have no const. Whoever borrows a tensor changes neither.
  tensor->ndim = static_cast<std::int32_t>(layout_.shape.size());
  tensor->shape = const_cast<std::int64_t*>(layout_.shape.data());
  tensor->strides = const_cast<std::int64_t*>(layout_.strides.data());
  wait_for_uses(*opened.block, stream.state());
  if (needs_showing(opened.block->segment, as)) show_to_host(reached(opened, elements_of(layout_)), stream.state());
  return lent;
}

ManagedTensor& ManagedTensor::operator=(ManagedTensor&& other) noexcept {
  std::swap(tensor_, other.tensor_);
  return *this;
}

ManagedTensor::~ManagedTensor() {
  if (tensor_ && tensor_->deleter) tensor_->deleter(tensor_);
}

DLManagedTensor* ManagedTensor::release_legacy() {
  if (!tensor_) throw Error(Errc::closed, "ManagedTensor::release_legacy: already released");
  if (tensor_->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
    throw Error(Errc::incompatible,
                "ManagedTensor::release_legacy: DLPack before 1.0 cannot say that a tensor is read-only");
  }
  if (tensor_->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) {
    throw Error(Errc::incompatible,
                "ManagedTensor::release_legacy: DLPack before 1.0 cannot say that elements are padded to whole bytes");
  }
  if (tensor_->deleter == &delete_export) {
    Export& made = *static_cast<Export*>(release()->manager_ctx);
    made.legacy = {made.managed.dl_tensor, &made, [](DLManagedTensor* tensor) { delete_legacy_export(tensor); }};
    return &made.legacy;
  }
  auto* const foreign = new Foreign{{}, nullptr};
  foreign->managed = {tensor_->dl_tensor, foreign, [](DLManagedTensor* tensor) { delete_foreign(tensor); }};
  foreign->whole = release();
  return &foreign->managed;
}

}  // namespace weir
