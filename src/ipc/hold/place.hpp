// SPDX-License-Identifier: Apache-2.0
#pragma once
// The socket that a holder listens on.

#include <sys/stat.h>

#include <optional>
#include <string>

#include "ipc/file_lock.hpp"
#include "ipc/listening_socket.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::detail::hold {

/// A listening socket at a path that no other holder has. A lock beside it lasts as long as this object, and ends with
/// its process, however that ends.
class Place {
 public:
  /// Throws as ipc::Holder's constructor does.
  Place(std::string path, bool other_users);
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place();  ///< removes the socket, unless another file is there by now
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }

 private:
  friend class spi::ForkLink;
  // The child's copy would keep writers and readers from noticing the holder's end. The path is the parent's.
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::child) socket_.leave_to_parent();
  }

  const std::string path_;
  std::optional<FileLock> lock_;
  ListeningSocket socket_;
  struct stat made_ {};        // the socket's file
  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::detail::hold
