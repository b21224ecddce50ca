// SPDX-License-Identifier: Apache-2.0
#include "ipc/hold/place.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "ipc/peer.hpp"
#include "weir/error.hpp"

namespace weir::detail::hold {
namespace {

[[noreturn]] void fail(const char* call, const std::string& path) {
  const std::error_code code(errno, std::generic_category());
  throw Error(code, std::string("holder: ") + call + " '" + path + "': " + code.message());
}

void remove_old(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    fail("lstat", path);
  }
  if (!S_ISSOCK(status.st_mode))
    throw Error(Errc::invalid_argument, "holder: '" + path + "' is something else than a socket, and is left alone");
  const spi::UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) fail("socket for", path);
  const int error = try_connect(probe.get(), address);
  if (error == 0 || error == EPROTOTYPE || error == EAGAIN)  // a socket of another sort, or one with a long queue
    throw Error(std::make_error_code(std::errc::address_in_use),
                "holder: another program listens at '" + path + "', and is left alone");
  errno = error;
  if (error != ECONNREFUSED) fail("connect to", path);
  if (::unlink(path.c_str()) != 0) fail("unlink", path);
}

}  // namespace

Place::Place(std::string path, bool other_users) : path_(std::move(path)) {
  const sockaddr_un address = address_of("holder", path_);
  const std::string lock = path_ + ".lock";
  auto file = open_lock_file(path_);
  if (!file) fail("open", lock);
  if (!lock_.emplace(std::move(file)).take()) {
    if (errno != EWOULDBLOCK) fail("flock", lock);
    throw Error(Errc::permission_denied, "holder: another holder serves '" + path_ + "'");
  }
  remove_old(path_, address);
  socket_.take(spi::UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (socket_.get() < 0) fail("socket for", path_);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("bind", path_);
  // Nobody can connect before listen().
  const char* call = "lstat";
  int error = ::lstat(path_.c_str(), &made_) == 0 ? 0 : errno;
  if (error == 0) call = "chmod", error = ::chmod(path_.c_str(), other_users ? 0666 : 0600) == 0 ? 0 : errno;
  if (error == 0) call = "listen at", error = ::listen(socket_.get(), 64) == 0 ? 0 : errno;
  if (error == 0) return;
  (void)::unlink(path_.c_str());
  errno = error;
  fail(call, path_);
}

Place::~Place() {
  struct stat now {};
  if (::lstat(path_.c_str(), &now) != 0) {
    if (errno != ENOENT) report({{errno, std::generic_category()}, "holder: lstat", "its socket may stay where it is"});
    return;
  }
  if (now.st_dev == made_.st_dev && now.st_ino == made_.st_ino) (void)::unlink(path_.c_str());
}

}  // namespace weir::detail::hold
