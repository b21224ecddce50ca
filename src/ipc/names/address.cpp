// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/address.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

#include "ipc/file_lock.hpp"
#include "ipc/peer.hpp"
#include "weir/error.hpp"

namespace weir::detail::names {
namespace {

constexpr int backlog = 64;
constexpr const char* whose = "names";

[[noreturn]] void fail(const std::string& path, const char* call, int error) {
  const std::error_code code(error, std::generic_category());
  throw Error(code, "names: " + std::string(call) + " at '" + path + "': " + code.message());
}

spi::UniqueFd make_socket(const std::string& path, int flags) {
  spi::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!socket) fail(path, "socket", errno);
  return socket;
}

// A name that nobody guesses, in the same folder. The file gets its mode before it gets its name.
std::string path_for_now(const std::string& path) {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) fail(path, "getrandom", errno);
  char name[16];
  std::snprintf(name, sizeof name, ".%08x", number);
  return path.substr(0, path.rfind('/') + 1) + name;
}

// Whoever replaces the socket of a dead server holds a lock beside the path, so that nobody removes the socket that
// another process has put there meanwhile. Only this user can open its file: a lock of the folder would be for
// everybody who may read that. Waits for others, but not for long.
void take(FileLock& lock, const std::string& path) {
  constexpr int rounds = 100;
  constexpr timespec pause{0, 10'000'000};
  for (int round = 0; !lock.take(); ++round) {
    if (errno == EWOULDBLOCK && round == rounds) fail(path, "another process keeps the lock beside it: flock", errno);
    if (errno != EINTR && errno != EWOULDBLOCK) fail(path, "flock of the lock beside it", errno);
    (void)::nanosleep(&pause, nullptr);
  }
}

// Throws unless what is in the way is the socket of a server that died. Return whether it is still there.
bool is_dead(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return false;
  if (!S_ISSOCK(found.st_mode)) fail(path, "there is a file that is no socket: bind", EEXIST);
  const auto probe = make_socket(path, SOCK_NONBLOCK);
  if (try_connect(probe.get(), address) != ECONNREFUSED) fail(path, "another server is there: bind", EADDRINUSE);
  return true;
}

}  // namespace

Listener::Listener(const std::string& path, bool everybody) : path_(path) {
  const auto address = address_of(whose, path);
  const std::string now = path_for_now(path);
  const auto address_now = address_of(whose, now);
  socket_.take(make_socket(path, SOCK_NONBLOCK));
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address_now), sizeof address_now) != 0)
    fail(path, "bind", errno);
  const char* call = "chmod";
  int error = ::chmod(now.c_str(), everybody ? 0666 : 0600) == 0 ? 0 : errno;
  if (error == 0) call = "listen", error = ::listen(socket_.get(), backlog) == 0 ? 0 : errno;
  struct stat made {};
  if (error == 0) call = "lstat", error = ::lstat(now.c_str(), &made) == 0 ? 0 : errno;
  device_ = made.st_dev;
  file_ = made.st_ino;
  try {
    if (error != 0) fail(path, call, error);
    if (::link(now.c_str(), path.c_str()) != 0) {
      if (errno != EEXIST) fail(path, "link", errno);
      (void)is_dead(path, address);  // else there is nobody to take turns with
      auto file = open_lock_file(path);
      if (!file) fail(path, "open of the lock beside it", errno);
      FileLock lock(std::move(file));
      take(lock, path);
      if (is_dead(path, address)) (void)::unlink(path.c_str());
      if (::link(now.c_str(), path.c_str()) != 0)
        fail(path, "another server has started: link", errno == EEXIST ? EADDRINUSE : errno);
    }
  } catch (...) {
    (void)::unlink(now.c_str());
    throw;
  }
  (void)::unlink(now.c_str());
}

void Listener::remove() noexcept {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) != 0) {
    if (errno == ENOENT) return;
    return report({{errno, std::generic_category()}, "ipc::Server: lstat", "the socket stays at its path"});
  }
  if (found.st_dev != device_ || found.st_ino != file_) return;
  (void)::unlink(path_.c_str());
}

spi::UniqueFd connect_to(const std::string& path, const channel::Deadline& deadline) {
  const auto address = address_of(whose, path);
  auto socket = make_socket(path, 0);
  const int error = connect_by(socket.get(), address, deadline);
  if (error == EAGAIN) throw Error(Errc::timed_out, "names: the server at '" + path + "' did not answer in time");
  if (error == ENOENT || error == ECONNREFUSED)
    throw Error(Errc::peer_gone, "names: there is no server at '" + path + "'; start one, or correct the path");
  if (error != 0) fail(path, "connect", error);
  if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) fail(path, "fcntl", errno);
  return socket;
}

}  // namespace weir::detail::names
