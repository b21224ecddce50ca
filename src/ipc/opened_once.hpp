// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <utility>

#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {

/// Memory of another process, from the file that came with it. It is opened when somebody wants it first, and once: a
/// refusal is remembered, and the file is closed then.
class OpenedOnce {
 public:
  explicit OpenedOnce(spi::StrangerFd file) noexcept : file_(std::move(file)) {}
  /// Return the memory; `open(file)` opens it. Throws, each time, what the opening threw. Not for two threads at once.
  template <class Open>
  const spi::Ref<spi::Segment>& get(const Open& open) {
    if (refusal_) std::rethrow_exception(refusal_);
    if (segment_) return segment_;
    try {
      segment_ = open(std::move(file_));
    } catch (...) {
      file_.reset();
      refusal_ = std::current_exception();
      throw;
    }
    return segment_;
  }

 private:
  spi::StrangerFd file_;
  spi::Ref<spi::Segment> segment_;
  std::exception_ptr refusal_;
};

}  // namespace weir::detail
