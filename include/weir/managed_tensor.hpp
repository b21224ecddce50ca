// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Tensor::to_dlpack takes and gives: the device that an export names, its options, and owners of DLPack's structs.
// Next, read tensor.hpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weir/export.hpp"
#include "weir/fwd.hpp"

namespace weir {

/// The DLDevice of a buffer's memory: {type, id}.
struct DlpackDevice {
  std::int32_t type;  ///< DLDeviceType, for example 1 for the CPU, 2 for CUDA
  std::int32_t id;    ///< index of the device where the type is CUDA or Vulkan, else 0
  friend bool operator==(const DlpackDevice&, const DlpackDevice&) = default;  ///< whether type and id are equal
};

/// Whether an export copies the elements to memory of their own.
enum class DlpackCopy : std::uint8_t {
  if_needed,  ///< when the memory cannot be shown as that of the device that was asked for
  always,     ///< the export is all that has the copy
  never,      ///< where a copy is needed, the export is refused
};

/// Options of an export. The defaults export the tensor as it is, without a copy.
struct DlpackOptions {
  bool read_only = false;  ///< mark the tensor read-only; consumers of DLPack before 1.0 then cannot take it
  /// The device that the tensor shall name; without it, that of the memory. Memory that the host reaches can be shown as
  /// the CPU's; pinned and managed memory, and exportable Vulkan memory that lies in the GPU, as that of the CUDA device
  /// that is the same GPU. Other memory is copied to the host for the CPU, and refused for other devices.
  std::optional<DlpackDevice> device = std::nullopt;
  DlpackCopy copy = DlpackCopy::if_needed;  ///< whether the elements are copied
};

/// Owner of a DLPack tensor that nobody has consumed yet. Hand the tensor over with release(); the consumer then calls
/// its deleter.
class WEIR_API ManagedTensor {
 public:
  /// Take over `tensor`, which may be null.
  explicit ManagedTensor(DLManagedTensorVersioned* tensor) noexcept : tensor_(tensor) {}
  /// Take over the tensor of `other`, which is empty afterwards.
  ManagedTensor(ManagedTensor&& other) noexcept : tensor_(other.release()) {}
  /// Exchange the tensors of the two.
  ManagedTensor& operator=(ManagedTensor&& other) noexcept;
  /// Call the deleter of a tensor that was not handed over.
  ~ManagedTensor();
  [[nodiscard]] DLManagedTensorVersioned* get() const noexcept { return tensor_; }  ///< null once it is handed over
  /// Hand the tensor over: from now on the caller sees to its deleter.
  [[nodiscard]] DLManagedTensorVersioned* release() noexcept {
    DLManagedTensorVersioned* const mine = tensor_;
    tensor_ = nullptr;
    return mine;
  }
  /// Hand the tensor over in the unversioned struct of DLPack before 1.0. Throws incompatible for what that struct
  /// cannot express: read-only tensors, and elements that are padded to whole bytes; closed when the tensor was handed
  /// over already. Takes no memory for a tensor that weir exported.
  [[nodiscard]] DLManagedTensor* release_legacy();

 private:
  DLManagedTensorVersioned* tensor_ = nullptr;
};

/// A DLTensor that owns nothing, for a call that is over before the tensor that lent it changes or ends.
class BorrowedTensor {
 public:
  /// Return the struct, a `DLTensor*`, which is valid as long as this object and the tensor that lent it. Its type has
  /// no name that this header could declare.
  [[nodiscard]] void* get() noexcept { return memory_.data(); }

 private:
  friend class Tensor;
  BorrowedTensor() noexcept = default;

  alignas(void*) std::array<std::byte, 48> memory_{};  // a DLTensor
};

}  // namespace weir
