// SPDX-License-Identifier: Apache-2.0
#pragma once
// A point of a peer's stream, for which buffers wait that came over a connection.

#include <exception>
#include <memory>
#include <mutex>

#include "ipc/timeline_page.hpp"
#include "weir/stream.hpp"

namespace weir::detail::channel {

class Link;

/// Several buffers may wait for one point.
class ReceivedPoint {
 public:
  ReceivedPoint(std::shared_ptr<const PeerPage> page, PagePoint point, std::weak_ptr<const Link> link) noexcept
      : page_(std::move(page)), point_(point), link_(std::move(link)) {}
  /// A point of a page that this process could not open: order() throws `refusal`.
  ReceivedPoint(std::exception_ptr refusal, PagePoint point) noexcept : refusal_(std::move(refusal)), point_(point) {}

  [[nodiscard]] bool is(PagePoint point) const noexcept { return point_ == point; }
  /// Make `stream` wait for the point, which costs one load if it has been reached. Throws peer_gone, and leaves the
  /// stream as it is, when it never will be. If that turns out later, the stream is lost with peer_gone.
  void order(const Stream& stream);

 private:
  [[nodiscard]] bool comes_soon() const;

  const std::shared_ptr<const PeerPage> page_;
  const std::exception_ptr refusal_;  // null if there is a page
  const PagePoint point_;
  const std::weak_ptr<const Link> link_;
  std::mutex making_;
  Event event_;  // made when the first stream has to wait
};

}  // namespace weir::detail::channel
