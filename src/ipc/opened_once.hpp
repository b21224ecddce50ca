// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/shortage.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {

/// Memory of another process, from the files that came with it. It is opened when somebody wants it first, and once: a
/// refusal is remembered, and the files are closed then, unless this process was short of something that it may have
/// later. `Memory` is what the opening makes.
template <class Memory>
class OpenedOnce {
 public:
  explicit OpenedOnce(std::vector<spi::StrangerFd> files) noexcept : files_(std::move(files)) {}
  /// If `refusal` is not null, the opening throws it.
  OpenedOnce(std::vector<spi::StrangerFd> files, std::exception_ptr refusal) noexcept
      : files_(std::move(files)), refusal_(std::move(refusal)) {}
  /// Take over the files, for which there are places.
  void keep(std::span<spi::StrangerFd> files) noexcept { std::ranges::move(files, files_.begin()); }
  /// Return the memory; `open(files)` opens it, and leaves the files if it throws. Throws what the opening threw, each time
  /// or until it succeeds. Not for two threads at once.
  template <class Open>
  const Memory& get(const Open& open) {
    if (refusal_) std::rethrow_exception(refusal_);
    if (memory_) return *memory_;
    try {
      memory_ = open(std::span(files_));
    } catch (...) {
      const bool all_left = std::ranges::all_of(files_, [](const spi::StrangerFd& file) { return bool{file}; });
      if (all_left && is_shortage()) throw;
      files_.clear();
      refusal_ = std::current_exception();
      throw;
    }
    files_.clear();
    return *memory_;
  }
  /// Hand out the memory, if it is open. Call it last.
  [[nodiscard]] std::optional<Memory> take() noexcept { return std::exchange(memory_, std::nullopt); }

 private:
  std::vector<spi::StrangerFd> files_;
  std::optional<Memory> memory_;
  std::exception_ptr refusal_;
};

}  // namespace weir::detail
