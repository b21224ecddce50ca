// SPDX-License-Identifier: Apache-2.0
#include "ipc/one_user.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "weir/error.hpp"
#include "weir/spi/backend.hpp"

namespace weir::detail {

void check_one_user(const char* operation, const spi::DeviceState& device, int socket) {
  const auto believes = device.backend->segments->believes_files;
  if (!believes || !believes(device)) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool known = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (known && peer.uid == ::geteuid()) return;
  throw Error(Errc::permission_denied,
              std::string(operation) + ": the other process is " +
                  (known ? "user " + std::to_string(peer.uid) + "'s" : "of a user that the kernel does not tell") +
                  ", and memory of " + device.describe() +
                  " goes only between processes of one user, because the driver believes what others can write into "
                  "its files; share host memory");
}

}  // namespace weir::detail
