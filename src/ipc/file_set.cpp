// SPDX-License-Identifier: Apache-2.0
#include "ipc/file_set.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "ipc/file_pairs.hpp"

namespace weir::detail {
namespace {

constexpr std::uint64_t bell_key = UINT64_MAX;

int set(const spi::UniqueFd& epoll, int how, int file, std::uint32_t events, std::uint64_t key) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return ::epoll_ctl(epoll.get(), how, file, &event) == 0 ? 0 : errno;
}

}  // namespace

FileSet FileSet::make(const char* purpose) {
  FileSet made;
  made.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!made.epoll_) fail_descriptor(purpose, "epoll_create1", errno);
  made.bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.bell_) fail_descriptor(purpose, "eventfd", errno);
  const int error = made.add(made.bell_.get(), EPOLLIN, bell_key);
  if (error != 0) fail_descriptor(purpose, "epoll_ctl", error);
  return made;
}

bool FileSet::ring() const noexcept { return ::eventfd_write(bell_.get(), 1) == 0; }

FileSet::Ready FileSet::wait(std::span<epoll_event> room, int milliseconds) const noexcept {
  const int count = ::epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), milliseconds);
  Ready ready;
  if (count < 0) {
    ready.error = errno == EINTR ? 0 : errno;
    return ready;
  }
  const auto found = room.first(static_cast<std::size_t>(count));
  const auto bell = std::ranges::find_if(found, [](const epoll_event& event) { return event.data.u64 == bell_key; });
  ready.events = found;
  ready.all = found.size() < room.size();
  if (bell == found.end()) return ready;
  eventfd_t rings = 0;
  (void)::eventfd_read(bell_.get(), &rings);
  *bell = found.back();
  ready.events = found.first(found.size() - 1);
  ready.rung = true;
  return ready;
}

int FileSet::add(int file, std::uint32_t events, std::uint64_t key) const noexcept {
  return set(epoll_, EPOLL_CTL_ADD, file, events, key);
}

int FileSet::change(int file, std::uint32_t events, std::uint64_t key) const noexcept {
  return set(epoll_, EPOLL_CTL_MOD, file, events, key);
}

void FileSet::remove(int file) const noexcept { (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, file, nullptr); }

void FileSet::reset() noexcept {
  epoll_.reset();
  bell_.reset();
}

void FileSet::leak() noexcept {
  (void)epoll_.release();
  (void)bell_.release();
}

}  // namespace weir::detail
