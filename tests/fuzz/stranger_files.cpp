// SPDX-License-Identifier: Apache-2.0
#include "stranger_files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "busy_pipe.hpp"
#include "spawn.hpp"

namespace weir::fuzz {
namespace {

using spi::UniqueFd;

constexpr std::uint64_t most_reserved = std::uint64_t{1} << 20;

// Large ones are sparse, which is wrong of them, too.
UniqueFd memfd(std::uint64_t bytes, int seals) {
  UniqueFd file(::memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  if (::ftruncate(file.get(), static_cast<off_t>(std::min(bytes, most))) != 0) return file;
  if (bytes != 0 && bytes <= most_reserved) (void)::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (seals != 0) ::fcntl(file.get(), F_ADD_SEALS, seals);
  return file;
}

UniqueFd for_reading(const UniqueFd& file) {
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

UniqueFd pipe_end() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

}  // namespace

UniqueFd Strangers::open(Stranger kind, const UniqueFd& genuine, std::uint64_t bytes) {
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  switch (kind) {
    case Stranger::genuine: return genuine.duplicate();
    case Stranger::sealed: return memfd(bytes, seals | F_SEAL_SEAL);
    case Stranger::sealed_larger: return memfd(bytes + 1, seals);
    case Stranger::sealed_write: return memfd(bytes, seals | F_SEAL_WRITE);
    case Stranger::sealed_shrink: return memfd(bytes, F_SEAL_SHRINK);
    case Stranger::unsealed: return memfd(bytes, 0);
    case Stranger::read_only: return for_reading(memfd(bytes, seals));
    case Stranger::null_device: return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    case Stranger::directory: return UniqueFd(::open("/", O_RDONLY | O_CLOEXEC));
    case Stranger::pipe: return pipe_end();
    case Stranger::event_fd: return UniqueFd(::eventfd(1, EFD_CLOEXEC));
    case Stranger::epoll: return UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    case Stranger::regular_file: return UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    case Stranger::pipe_writes: return pipe(O_WRONLY);
    case Stranger::pipe_both: return pipe(O_RDWR);
    case Stranger::missing:
    case Stranger::count: return {};
    case Stranger::socket_ready:
    case Stranger::socket_late:
    case Stranger::socket_gone:
    case Stranger::socket_datagram: return socket(kind);
    case Stranger::socket_listening: {
      UniqueFd end(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr address{AF_UNIX, {}};
      if (::bind(end.get(), &address, sizeof address.sa_family) != 0 || ::listen(end.get(), 1) != 0) std::abort();
      return end;
    }
  }
  return {};
}

UniqueFd Strangers::socket(Stranger kind) {
  auto [mine, theirs] = test::socket_pair(kind == Stranger::socket_datagram ? SOCK_DGRAM : SOCK_STREAM);
  if (kind == Stranger::socket_ready && ::send(mine.get(), "", 1, MSG_NOSIGNAL) != 1) std::abort();
  if (kind == Stranger::socket_gone) {  // not closed, so that `released` can be seen
    ::shutdown(mine.get(), SHUT_WR);
    never_ready_ = true;
  }
  if (kind != Stranger::socket_datagram) sockets_.push_back({std::move(mine), kind == Stranger::socket_late});
  return std::move(theirs);
}

UniqueFd Strangers::pipe(int flags) {
  auto [reads, writes] = test::pipe_pair();
  UniqueFd end = test::reopened(writes.get(), flags);
  readers_.push_back(std::move(reads));
  return end;
}

void Strangers::settle() {
  for (Socket& socket : sockets_) {
    if (std::exchange(socket.late, false)) (void)::send(socket.end.get(), "", 1, MSG_NOSIGNAL);
  }
}

bool Strangers::released() {
  constexpr int patience = 10'000;
  for (const Socket& socket : sockets_) {
    ::shutdown(socket.end.get(), SHUT_WR);
    pollfd entry{socket.end.get(), 0, 0};  // POLLHUP: both directions are over
    if (::poll(&entry, 1, patience) != 1) return false;
  }
  for (const UniqueFd& reader : readers_) {
    pollfd entry{reader.get(), 0, 0};
    if (::poll(&entry, 1, patience) != 1) return false;
  }
  return true;
}

}  // namespace weir::fuzz
