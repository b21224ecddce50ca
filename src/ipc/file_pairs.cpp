// SPDX-License-Identifier: Apache-2.0
#include "ipc/file_pairs.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "weir/error.hpp"

namespace weir::detail {
namespace {

/// Return an option of a socket, or -1 if `fd` is not a socket.
int option(int fd, int name) noexcept {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

// Given an offset, splice() refuses a pipe with ESPIPE before it looks at anything else. F_GETPIPE_SZ would also
// recognize a pipe, but it waits for a lock, and somebody who splices a silent socket into the pipe holds that lock for
// as long as they like. fstat() asks the file system, which may be a stranger's.
bool is_pipe(int fd) noexcept {
  off64_t offset = 0;
  return ::splice(fd, nullptr, fd, &offset, 1, SPLICE_F_NONBLOCK) < 0 && errno == ESPIPE;
}

[[noreturn]] void refuse(const char* purpose, const char* what) {
  throw Error(Errc::corrupt_descriptor,
              std::string("descriptor: the ") + purpose + "'s file descriptor is not " + what);
}

}  // namespace

void fail_descriptor(const char* purpose, const char* call, int error) {
  const std::error_code code(error, std::generic_category());
  throw Error(code, std::string(purpose) + ": " + call + ": " + code.message() +
                        (error == EMFILE ? "; raise the limit of open files (ulimit -n)" : ""));
}

std::pair<spi::UniqueFd, spi::UniqueFd> make_pipe(const char* purpose) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail_descriptor(purpose, "pipe2", errno);
  // Nothing goes through the pipe, so it is made small: each user has room for 16 384 pages in pipes, and beyond that
  // all of the user's new pipes are small.
  (void)::fcntl(ends[0], F_SETPIPE_SZ, 1);
  return {spi::UniqueFd(ends[0]), spi::UniqueFd(ends[1])};
}

std::pair<spi::UniqueFd, spi::UniqueFd> make_sockets(int type, const char* purpose) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) fail_descriptor(purpose, "socketpair", errno);
  return {spi::UniqueFd(ends[0]), spi::UniqueFd(ends[1])};
}

bool is_unix_socket(int file, int type) noexcept {
  return option(file, SO_DOMAIN) == AF_UNIX && option(file, SO_TYPE) == type && option(file, SO_ACCEPTCONN) == 0;
}

std::pair<spi::UniqueFd, spi::UniqueFd> make_one_way_sockets(const char* purpose) {
  auto pair = make_sockets(SOCK_STREAM, purpose);
  if (::shutdown(pair.second.get(), SHUT_RD) != 0) fail_descriptor(purpose, "shutdown", errno);
  return pair;
}

// This also accepts a named pipe, which behaves in the same way.
void check_write_end(int end, const char* purpose) {
  const int flags = ::fcntl(end, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) != O_WRONLY || !is_pipe(end)) refuse(purpose, "the write end of a pipe");
}

// A listening socket or a network socket stays silent after the other side has died.
void check_socket_end(int end, const char* purpose) {
  if (!is_unix_socket(end, SOCK_STREAM)) refuse(purpose, "one end of a stream socket pair");
}

}  // namespace weir::detail
