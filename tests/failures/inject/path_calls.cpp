// SPDX-License-Identifier: Apache-2.0
// Calls on sockets and files that have a path.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "refused.hpp"
#include "system_calls.hpp"

namespace {

using weir::test::Code;
using weir::test::refuse;

constexpr const char* again = "the call is made again";
constexpr const char* later = "whoever connects is taken a moment later, or finds the connection closed";

constexpr const char* hung_up = "accept4|it hung up";

constexpr Code of_socket[] = {{EMFILE}, {ENFILE}, {ENOMEM}};
constexpr Code of_bind[] = {{EACCES}, {ENOMEM}};
constexpr Code of_listen[] = {{ENOBUFS}};
constexpr Code of_connect[] = {{EINTR, again}, {ENOMEM}};
constexpr Code of_accept[] = {{EINTR, again}, {ECONNABORTED, again}, {EMFILE, later, hung_up}, {ENOMEM, later}};
constexpr Code of_chmod[] = {{EROFS}};
constexpr Code of_link[] = {{ENOSPC}};
constexpr Code of_unlink[] = {{EROFS, "whoever replaces the server removes it"}};
constexpr Code of_lstat[] = {{ENOMEM}};
constexpr Code of_open[] = {{EMFILE}, {ENFILE}, {ENOMEM}};
constexpr Code of_flock[] = {{EINTR, again}, {ENOLCK}};
constexpr Code of_unlock[] = {{ENOLCK, "the close that follows unlocks the file"}};
constexpr Code of_random[] = {{ENOSYS}};

void tell(const char* call, const char* path) {
  if (const auto told = weir::test::before_path_call.load()) told(call, path);
}

}  // namespace

std::atomic<weir::test::PathCall*> weir::test::before_path_call{nullptr};
std::atomic<int> weir::test::interrupted{0};

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" {
int __real_socket(int, int, int);
int __wrap_socket(int domain, int type, int protocol) {
  return refuse("socket", of_socket) ? -1 : __real_socket(domain, type, protocol);
}
int __real_bind(int, const sockaddr*, socklen_t);
int __wrap_bind(int fd, const sockaddr* address, socklen_t size) {
  return refuse("bind", of_bind) ? -1 : __real_bind(fd, address, size);
}
int __real_listen(int, int);
int __wrap_listen(int fd, int backlog) { return refuse("listen", of_listen) ? -1 : __real_listen(fd, backlog); }
int __real_connect(int, const sockaddr*, socklen_t);
int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
  if (weir::test::ends_early()) {
    errno = EAGAIN;
    return -1;
  }
  if (weir::test::interrupted > 0 && weir::test::interrupted.fetch_sub(1) > 0) {
    errno = EINTR;
    return -1;
  }
  return refuse("connect", of_connect) ? -1 : __real_connect(fd, address, size);
}
int __real_accept4(int, sockaddr*, socklen_t*, int);
int __wrap_accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return refuse("accept4", of_accept) ? -1 : __real_accept4(fd, address, size, flags);
}
int __real_chmod(const char*, mode_t);
int __wrap_chmod(const char* path, mode_t mode) { return refuse("chmod", of_chmod) ? -1 : __real_chmod(path, mode); }
int __real_link(const char*, const char*);
int __wrap_link(const char* from, const char* to) {
  tell("link", to);
  return refuse("link", of_link) ? -1 : __real_link(from, to);
}
// It takes effect all the same: else it would be this test that leaves the file.
int __real_unlink(const char*);
int __wrap_unlink(const char* path) {
  tell("unlink", path);
  const int result = __real_unlink(path);
  return refuse("unlink", of_unlink) ? -1 : result;
}
int __real_lstat(const char*, struct stat*);
int __wrap_lstat(const char* path, struct stat* status) {
  return refuse("lstat", of_lstat) ? -1 : __real_lstat(path, status);
}
int __real_open(const char*, int, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : mode_t{0};
  va_end(list);
  return refuse("open", of_open) ? -1 : __real_open(path, flags, mode);
}
int __real_flock(int, int);
int __wrap_flock(int fd, int operation) {
  const bool refused = operation == LOCK_UN ? refuse("flock", of_unlock) : refuse("flock", of_flock);
  return refused ? -1 : __real_flock(fd, operation);
}
ssize_t __real_getrandom(void*, std::size_t, unsigned);
ssize_t __wrap_getrandom(void* data, std::size_t bytes, unsigned flags) {
  return refuse("getrandom", of_random) ? -1 : __real_getrandom(data, bytes, flags);
}
}
// NOLINTEND(bugprone-reserved-identifier)
