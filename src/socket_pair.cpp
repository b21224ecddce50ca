// SPDX-License-Identifier: Apache-2.0
#include "socket_pair.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "weir/error.hpp"

namespace weir::detail {
namespace {

/// A socket's property; -1 for what is no socket.
int option(int fd, int name) noexcept {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

}  // namespace

void fail_descriptor(const char* purpose, const char* call, int error) {
  const std::error_code code(error, std::generic_category());
  throw Error(code, std::string(purpose) + ": " + call + ": " + code.message() +
                        (error == EMFILE ? "; raise the limit of open files (ulimit -n)" : ""));
}

std::pair<spi::UniqueFd, spi::UniqueFd> make_socket_pair(const char* purpose) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_descriptor(purpose, "socketpair", errno);
  return {spi::UniqueFd(ends[0]), spi::UniqueFd(ends[1])};
}

// A socket that listens, or one of a network, stays silent after the other side's death.
void check_socket_end(const spi::UniqueFd& end, const char* purpose) {
  const int fd = end.get();
  if (option(fd, SO_DOMAIN) == AF_UNIX && option(fd, SO_TYPE) == SOCK_STREAM && option(fd, SO_ACCEPTCONN) == 0) return;
  throw Error(Errc::corrupt_descriptor, std::string("descriptor: the ") + purpose +
                                            "'s file descriptor is not one end of a stream socket pair");
}

}  // namespace weir::detail
