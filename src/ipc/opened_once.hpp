// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {

/// Memory of another process, from the file that came with it. It is opened when somebody wants it first, and once: a
/// refusal is remembered, and the file is closed then. `Memory` is what the opening makes.
template <class Memory>
class OpenedOnce {
 public:
  explicit OpenedOnce(spi::StrangerFd file) noexcept : file_(std::move(file)) {}
  /// Return the memory; `open(file)` opens it. Throws, each time, what the opening threw. Not for two threads at once.
  template <class Open>
  const Memory& get(const Open& open) {
    if (refusal_) std::rethrow_exception(refusal_);
    if (memory_) return *memory_;
    try {
      memory_ = open(std::move(file_));
    } catch (...) {
      file_.reset();
      refusal_ = std::current_exception();
      throw;
    }
    return *memory_;
  }

 private:
  spi::StrangerFd file_;
  std::optional<Memory> memory_;
  std::exception_ptr refusal_;
};

}  // namespace weir::detail
