// SPDX-License-Identifier: Apache-2.0
#pragma once
// The socket that a holder listens on.

#include <sys/stat.h>

#include <string>

#include "weir/spi/unique_fd.hpp"

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
  /// In a forked child: the path is the parent's.
  void forget() noexcept {
    socket_.reset();
    lock_.reset();
  }

 private:
  const std::string path_;
  spi::UniqueFd lock_, socket_;
  struct stat made_ {};  // the socket's file
};

}  // namespace weir::detail::hold
