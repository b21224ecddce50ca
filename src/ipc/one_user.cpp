// SPDX-License-Identifier: Apache-2.0
#include "ipc/one_user.hpp"

#include <unistd.h>

#include <string>

#include "ipc/peer.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"

namespace weir::detail {

void check_one_user(const char* operation, const spi::DeviceState& device, int socket) {
  const auto believes = device.backend->segments->believes_files;
  if (!believes || !believes(device)) return;
  const auto user = user_of(socket);
  if (user == ::geteuid()) return;
  throw Error(Errc::permission_denied,
              std::string(operation) + ": the other process is " +
                  (user ? "user " + std::to_string(*user) + "'s" : "of a user that the kernel does not tell") +
                  ", and memory of " + device.describe() +
                  " goes only between processes of one user, because the driver believes what others can write into "
                  "its files; share host memory");
}

}  // namespace weir::detail
