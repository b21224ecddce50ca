// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sockets that have a path.

#include <sys/types.h>

#include <string>

#include "ipc/channel/deadline.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail::names {

/// A socket that listens at a path, which is removed at the end if it is still this one's.
class Listener {
 public:
  /// `everybody` may connect, or the user of this process only. Throws.
  Listener(const std::string& path, bool everybody);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  /// In a forked child: the file is the parent's.
  void forget() noexcept { socket_.reset(); }
  void remove() noexcept;  ///< the path; it must not have been forgotten

 private:
  const std::string path_;
  spi::UniqueFd socket_;
  dev_t device_ = 0;
  ino_t file_ = 0;
};

/// Connect to the listener at a path. The socket does not block. Throws peer_gone when nobody listens there,
/// permission_denied, timed_out, and the error of the operating system.
[[nodiscard]] spi::UniqueFd connect_to(const std::string& path, const channel::Deadline& deadline);

}  // namespace weir::detail::names
