// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "base/shortage.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {

/// Memory of another process, from the file that came with it. It is opened when somebody wants it first, and once: a
/// refusal is remembered, and the file is closed then, unless this process was short of something that it may have
/// later. `Memory` is what the opening makes.
template <class Memory>
class OpenedOnce {
 public:
  explicit OpenedOnce(spi::StrangerFd file) noexcept : file_(std::move(file)) {}
  /// Return the memory; `open(file)` opens it, and leaves the file if it throws. Throws what the opening threw, each time
  /// or until it succeeds. Not for two threads at once.
  template <class Open>
  const Memory& get(const Open& open) {
    if (refusal_) std::rethrow_exception(refusal_);
    if (memory_) return *memory_;
    try {
      memory_ = open(file_);
    } catch (...) {
      if (file_ && is_shortage()) throw;
      file_.reset();
      refusal_ = std::current_exception();
      throw;
    }
    file_.reset();
    return *memory_;
  }

 private:
  spi::StrangerFd file_;
  std::optional<Memory> memory_;
  std::exception_ptr refusal_;
};

}  // namespace weir::detail
