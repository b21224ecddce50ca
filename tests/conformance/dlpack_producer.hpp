// SPDX-License-Identifier: Apache-2.0
#pragma once
// A framework that gives tensors away: DLPack structs over a buffer of weir, whose deleters are counted.

#include <dlpack/dlpack.h>

#include <atomic>
#include <memory>
#include <vector>

#include "weir/dlpack.hpp"

namespace weir::test {

/// Makes tensors over `buffer`, all of its bytes as u8 unless changed before `give`.
class Producer {
 public:
  explicit Producer(const Buffer& buffer) {
    const DlpackDevice where = dlpack_device(buffer);
    const auto address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer.device_address()));
    tensor.data = buffer.host_data() ? static_cast<void*>(buffer.host_data()) : address;
    tensor.device = {static_cast<DLDeviceType>(where.type), where.id};
    tensor.ndim = 1;
    tensor.dtype = {kDLUInt, 8, 1};
    shape = {static_cast<std::int64_t>(buffer.size())};
    strides = {1};
  }

  /// A new tensor, as `from_dlpack` takes it.
  DLManagedTensorVersioned* give() { return make<DLManagedTensorVersioned>(); }
  DLManagedTensor* give_legacy() { return make<DLManagedTensor>(); }
  [[nodiscard]] int deleted() const { return *count_; }

  DLTensor tensor{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  DLPackVersion version{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  std::uint64_t flags = 0;
  bool null_shape = false;
  bool null_strides = false;

 private:
  template <class Managed>
  struct Given {
    Managed managed{};
    std::vector<std::int64_t> shape, strides;
    std::shared_ptr<std::atomic<int>> count;
  };

  template <class Managed>
  Managed* make() {
    auto* given = new Given<Managed>;
    given->shape = shape;
    given->strides = strides;
    given->count = count_;
    given->managed.dl_tensor = tensor;
    given->managed.dl_tensor.shape = null_shape ? nullptr : given->shape.data();
    given->managed.dl_tensor.strides = null_strides ? nullptr : given->strides.data();
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
      given->managed.version = version;
      given->managed.flags = flags;
    }
    given->managed.manager_ctx = given;
    given->managed.deleter = [](Managed* self) {
      auto* mine = static_cast<Given<Managed>*>(self->manager_ctx);
      ++*mine->count;
      delete mine;
    };
    return &given->managed;
  }

  std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace weir::test
