// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors from other frameworks; Tensor::to_dlpack exports them to others. The structs are those of <dlpack/dlpack.h>
// 1.x, which this header does not include.

#include <string>

#include "weir/tensor.hpp"

namespace weir {

/// Take over a tensor of another framework as memory and layout. Every field is checked before the memory is touched.
/// Ownership moves in any case: the producer's deleter runs exactly once, even when this throws. Throws
/// invalid_argument; incompatible for another major version; unsupported for a device that no backend knows. The caller
/// must have ordered the producer's work before `stream`. The deleter runs after all recorded uses are complete.
[[nodiscard]] Tensor from_dlpack(DLManagedTensorVersioned* tensor, const Stream& stream);
/// The same for the unversioned struct of DLPack before 1.0.
[[nodiscard]] Tensor from_dlpack(DLManagedTensor* tensor, const Stream& stream);

/// The DLDevice of a buffer's memory: {type, id}.
struct DlpackDevice {
  std::int32_t type;
  std::int32_t id;
  friend bool operator==(const DlpackDevice&, const DlpackDevice&) = default;
};
[[nodiscard]] DlpackDevice dlpack_device(const Buffer& buffer);

}  // namespace weir
