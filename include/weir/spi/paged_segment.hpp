// SPDX-License-Identifier: Apache-2.0
#pragma once
// Addresses whose memory comes and goes page by page while buffers lie elsewhere in them. What paged pools stand on.

#include <cstddef>

#include "weir/error.hpp"
#include "weir/spi/segment.hpp"

namespace weir::spi {

/// Told how many bytes of memory a paged segment has more, or less.
class PageListener {
 public:
  virtual void paged(std::ptrdiff_t bytes) noexcept = 0;

 protected:
  ~PageListener() = default;
};

/// `size` bytes of addresses without memory at first. A page is memory of any multiple of `page_bytes` that is put at such
/// a multiple, moved and ended as a whole; copies and kernels cross from page to page. None of the functions waits
/// for the device: whoever takes memory away from addresses knows that nothing uses them. One thread at a time calls
/// them. Destruction ends what is left.
class PagedSegment : public Segment {
 public:
  std::size_t page_bytes = 0;
  PageListener* listener = nullptr;  ///< set by the resource

  /// New memory at `offset`. False, with `shortage` filled, when there is none. Throws for everything else. Without a
  /// result nothing was made.
  virtual bool add_page(std::size_t offset, std::size_t bytes, Shortage& shortage) = 0;
  /// Put the page that begins at `from` at `to` instead; the two places do not overlap. Throws, and then it is where it
  /// was.
  virtual void move_page(std::size_t from, std::size_t to) = 0;
  /// Give the memory of the page that begins at `offset` back.
  virtual void end_page(std::size_t offset) noexcept = 0;

  PagedSegment* paged() noexcept final { return this; }
};

}  // namespace weir::spi
