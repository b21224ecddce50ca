// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is behind a weir::Device. Backends derive from it and keep their driver handles there.

#include <string>
#include <vector>

#include "weir/device.hpp"

namespace weir::spi {

/// One device of one backend. Made once, never destroyed (process exit cannot crash on it), immutable once published.
struct DeviceState {
  const Backend* backend = nullptr;
  int ordinal = 0;
  Uuid uuid;
  std::string name;
  std::string driver;          ///< name and version; part of the identity that descriptors carry
  bool is_gpu = false;
  std::size_t total_memory = 0;
  std::vector<KindInfo> kinds; ///< in order of preference
  MemoryKind default_kind{};
  MemoryKind staging_kind{};   ///< host-accessible memory that this device's streams copy from and to

  virtual ~DeviceState() = default;
  [[nodiscard]] const KindInfo* find(MemoryKind kind) const noexcept;
  /// "cuda:0 (NVIDIA H200)", for messages.
  [[nodiscard]] std::string describe() const;
};

}  // namespace weir::spi
