// SPDX-License-Identifier: Apache-2.0
#pragma once
// A range of addresses whose memory comes and goes page by page, while other parts of the range hold buffers. Paged
// pools stand on this.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "weir/error.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {
class SharedPlaces;
}

namespace weir::spi {

/// Is told how many bytes of memory a paged segment has gained (> 0) or lost (< 0).
class PageListener {
 public:
  /// Called after each change, by the thread that made it.
  virtual void paged(std::ptrdiff_t bytes) noexcept = 0;

 protected:
  ~PageListener() = default;
};

/// `size` bytes of addresses, which have no memory at first. A page is memory whose size and offset are multiples of
/// `page_bytes`. It is put, moved and ended as a whole, but copies and kernels may cross from one page to the next. No
/// function waits for the device: a caller that takes memory away from addresses must know that nothing uses them. One
/// thread at a time may call these functions, unless they say otherwise. Destroying the segment ends the pages that are
/// left.
class PagedSegment : public Segment {
 public:
  PagedSegment();  ///< without pages
  ~PagedSegment() override;

  std::size_t page_bytes = 0;        ///< size of a page, at least; set by the backend
  PageListener* listener = nullptr;  ///< set by the resource

  /// Put a page of new memory at `offset`. Returns false, with `shortage` filled in, when memory is exhausted, and
  /// throws for every other failure. Either leaves nothing behind.
  virtual bool add_page(std::size_t offset, std::size_t bytes, Shortage& shortage) = 0;
  /// Move the page that begins at `from` to `to`. The two places do not overlap. If this throws, the page is where it
  /// was.
  virtual void move_page(std::size_t from, std::size_t to) = 0;
  /// Give back the memory of the page that begins at `offset`. What the driver refuses is reported, and tried again when
  /// another page needs the addresses.
  virtual void end_page(std::size_t offset) noexcept = 0;

  /// The pages that hold a range, in order.
  struct Held {
    std::vector<Ref<Segment>> pages;  ///< each is a segment without an address
    std::size_t offset = 0;           ///< of the range in the first page
  };
  /// Return the pages that hold the range, for other processes (SegmentOps::join): they are exportable if this segment
  /// is. The range is a buffer's, so its pages stay where they are. Thread-safe. Throws only for want of memory. The
  /// default is for segments that are never exportable, and returns no pages.
  [[nodiscard]] virtual Held hold(std::size_t /*offset*/, std::size_t /*bytes*/) { return {}; }

  /// What another process opens for a range, and where the range is in that.
  struct Shared {
    Ref<Segment> segment;    ///< a page, or a segment that has parts()
    std::size_t offset = 0;  ///< of the range in that
  };
  /// Return the page that holds the range, or a segment whose parts() are the pages that do. The same pages make the
  /// same segment while they stay where they are, up to a limit. Called as hold() is, but without any lock of the
  /// caller's: the end of an older such segment may be told to other processes.
  [[nodiscard]] Shared share(std::size_t offset, std::size_t bytes);
  /// The page at `offset` is about to move or to end.
  void forget_shared(std::size_t offset) noexcept;
  /// Return where the memory of `opened` is, which this process opened from what share() returned; nothing if that is
  /// other memory, or has moved since. Thread-safe.
  [[nodiscard]] std::optional<std::size_t> find_shared(Segment& opened) noexcept;

  PagedSegment* paged() noexcept final { return this; }

 protected:
  /// For the list of pages, which hold() reads while others change it. Forks see to it. While a thread has it, that
  /// thread takes no other lock and calls no driver.
  sync::Mutex list_;

 private:
  friend class ForkLink;
  void fork(ForkMoment moment) noexcept;

  const std::unique_ptr<detail::SharedPlaces> shared_;  // under list_
  ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::spi
