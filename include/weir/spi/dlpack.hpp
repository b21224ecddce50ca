// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exports in the steps that bindings of other languages need one by one: a binding waits in its own way, and its arrays
// may have their shapes elsewhere than in a Layout.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/managed_tensor.hpp"
#include "weir/tensor.hpp"

namespace weir::spi {

/// Elements of a buffer, as a Layout describes them. Owns nothing.
struct Elements {
  DType dtype;                            ///< of every element
  std::span<const std::int64_t> shape;    ///< number of elements along each dimension
  std::span<const std::int64_t> strides;  ///< in elements, one per dimension
  std::size_t byte_offset = 0;            ///< of element 0 from the beginning of the buffer
};

/// A range of a buffer.
struct ByteRange {
  std::size_t offset = 0;  ///< of the first byte
  std::size_t bytes = 0;   ///< how many
};

/// Return the range from the first byte to the last one that belongs to an element; no bytes where there are no
/// elements. The elements fit their buffer.
[[nodiscard]] WEIR_API ByteRange reach_of(const Elements& elements) noexcept;

/// What has to be done so that an export names a device.
struct DlpackRoute {
  DlpackDevice device;   ///< that the export names
  bool copies = false;   ///< dlpack_copy() makes what is exported
  bool to_host = false;  ///< the copy is in memory of the host, and else in memory of the same resource
};

/// Return what `options` ask for. Throws incompatible when the memory cannot be shown as that of the device, and when
/// it needs the copy that the options forbid; unsupported for memory that DLPack cannot show; closed.
[[nodiscard]] WEIR_API DlpackRoute dlpack_route(const Buffer& buffer, const DlpackOptions& options);
/// Return a compact copy of the elements, ordered after every use of the memory so far and after what is on `consumer`.
/// It is made on that stream, or on a stream of its own where the owner of `consumer` may destroy it right after the
/// export: order the consumer after the copy.
[[nodiscard]] WEIR_API Tensor dlpack_copy(const Tensor& tensor, const DlpackRoute& route, const Stream& consumer);
/// Export the elements. `flags` are DLPack's. With a `consumer`, its later work is ordered after every use so far, and
/// the memory's reuse after the work that is on it when the deleter runs. Without one, the caller knows that all uses
/// are complete, and the consumer uses the memory only until it calls the deleter. Throws unsupported where the memory
/// does not have the kind of address that tensors of `device` have; closed.
[[nodiscard]] WEIR_API ManagedTensor export_elements(const Buffer& buffer, const Elements& elements,
                                                     DlpackDevice device, std::uint64_t flags, const Stream* consumer);

/// A tensor of another framework, field by field as DLPack has it. Nothing is known to be true of it.
struct ImportedTensor {
  DlpackDevice device;                    ///< DLTensor::device
  DType dtype;                            ///< DLTensor::dtype
  std::int32_t dimensions = 0;            ///< DLTensor::ndim
  const std::int64_t* shape = nullptr;    ///< DLTensor::shape
  const std::int64_t* strides = nullptr;  ///< DLTensor::strides; null for row-major without gaps
  std::uint64_t data = 0;                 ///< DLTensor::data
  std::uint64_t byte_offset = 0;          ///< DLTensor::byte_offset
  bool padded = false;                    ///< lanes of less than a byte begin at whole bytes (IS_SUBBYTE_TYPE_PADDED)
};

/// Make a tensor over memory of another framework, as weir::from_dlpack does. `release` is called once all recorded
/// uses are complete, on any thread; it must not throw. `releases` says whether it will be called: it is not when this
/// throws, and not for a tensor of no bytes. Then the caller gives the producer's tensor back.
[[nodiscard]] WEIR_API Tensor import_tensor(const ImportedTensor& tensor, bool read_only, std::function<void()> release,
                                            const Stream& stream, bool& releases);

}  // namespace weir::spi
