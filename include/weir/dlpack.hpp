// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors from other frameworks; Tensor::to_dlpack exports them to others. The structs are those of <dlpack/dlpack.h>
// 1.x, which this header does not include.

#include <cstdint>
#include <string_view>

#include "weir/export.hpp"
#include "weir/tensor.hpp"

namespace weir {

/// Take over a tensor of another framework as memory and layout. Every field is checked before the memory is touched.
/// Ownership moves in any case: the producer's deleter runs exactly once, even when this throws. Throws
/// invalid_argument; incompatible for another major version; unsupported for a device that no backend knows. The caller
/// must have ordered the producer's work before `stream`. The deleter runs after all recorded uses are complete.
[[nodiscard]] WEIR_API Tensor from_dlpack(DLManagedTensorVersioned* tensor, const Stream& stream);
/// What is known about a tensor of DLPack before 1.0, which cannot say that it is read-only.
enum class LegacyAccess : std::uint8_t {
  read_write,  ///< the producer allows writes
  read_only,   ///< perhaps the producer allows none: copies and fills into the tensor are refused
};
/// The same for the unversioned struct of DLPack before 1.0.
[[nodiscard]] WEIR_API Tensor from_dlpack(DLManagedTensor* tensor, const Stream& stream,
                                          LegacyAccess access = LegacyAccess::read_write);

/// Call the deleter of a tensor in the struct of DLPack before 1.0, such as one of ManagedTensor::release_legacy that
/// nobody has consumed. What the deleter throws is reported. Does nothing for null.
WEIR_API void give_back(DLManagedTensor* tensor) noexcept;

/// Return the DLDevice that an export of `buffer` names. Throws closed.
[[nodiscard]] WEIR_API DlpackDevice dlpack_device(const Buffer& buffer);
/// Return the name of a DLDeviceType without its prefix: "CUDAHost". Empty for one that no memory of weir has.
[[nodiscard]] WEIR_API std::string_view dlpack_device_name(std::int32_t type) noexcept;

}  // namespace weir
