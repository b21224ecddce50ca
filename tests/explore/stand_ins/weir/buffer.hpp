// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in front of include/weir/buffer.hpp, for protocols that do nothing with buffers but move them.

#include "weir/spi/sync.hpp"

namespace weir {

class Buffer {
 public:
  Buffer() noexcept = default;
  explicit Buffer(int name) noexcept : name_(name) {}
  Buffer(Buffer&& other) noexcept : name_(other.name()) { other.name_ = 0; }
  Buffer& operator=(Buffer&& other) noexcept {
    const int name = other.name();
    other.name_ = 0;
    name_ = name;
    return *this;
  }

  /// 0: closed.
  [[nodiscard]] int name() const noexcept { return name_; }

 private:
  sync::Plain<int> name_{0};
};

}  // namespace weir
