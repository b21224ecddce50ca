// SPDX-License-Identifier: Apache-2.0
#pragma once
// The points of this process's streams that a peer waits for.

#include <memory>

#include "ipc/channel/words.hpp"
#include "ipc/timeline_page.hpp"
#include "weir/spi/unique_fd.hpp"
#include "weir/stream.hpp"

namespace weir::detail::channel {

/// The page of one end of a connection. One thread at a time may call it.
class SentPoints {
 public:
  /// Throws when the system has no file or no memory for a page.
  SentPoints() : page_(std::make_shared<OwnPage>()) {}

  /// Return a point that is reached when everything is complete that was put on `stream` so far. It is given up when
  /// the stream is lost before that. Throws unsupported when page_words other streams have points that were not
  /// reached.
  [[nodiscard]] PagePoint record(const Stream& stream);
  /// Return a copy of the page's file, until it is told().
  [[nodiscard]] spi::UniqueFd file() { return page_->file().duplicate(); }
  /// Say that the peer has the file.
  void told() noexcept { page_->file().reset(); }
  [[nodiscard]] bool is_told() const noexcept { return !page_->file(); }  ///< whether the peer has it

 private:
  const std::shared_ptr<OwnPage> page_;  // also kept by what stands on the streams
  Words words_;
};

}  // namespace weir::detail::channel
