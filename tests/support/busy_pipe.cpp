// SPDX-License-Identifier: Apache-2.0
#include "busy_pipe.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <string>
#include <system_error>
#include <tuple>

#include "sleeping.hpp"
#include "spawn.hpp"

namespace weir::test {
namespace {

void check(bool done, const char* what) {
  if (!done) throw std::system_error(errno, std::generic_category(), what);
}

// Nothing fits into it any more.
void fill(int socket) {
  const std::array<char, 4096> junk{};
  while (::send(socket, junk.data(), junk.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  check(errno == EAGAIN, "filling a socket");
}

std::pair<spi::UniqueFd, spi::UniqueFd> filled_pipe() {
  auto ends = pipe_pair();
  check(::write(ends.second.get(), "x", 1) == 1, "write to a pipe");
  return ends;
}

}  // namespace

std::pair<spi::UniqueFd, spi::UniqueFd> pipe_pair() {
  int ends[2] = {-1, -1};
  check(::pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  return {spi::UniqueFd(ends[0]), spi::UniqueFd(ends[1])};
}

spi::UniqueFd reopened(int end, int flags) {
  spi::UniqueFd file(::open(("/proc/self/fd/" + std::to_string(end)).c_str(), flags | O_CLOEXEC));
  check(static_cast<bool>(file), "opening a pipe again");
  return file;
}

// A thread moves what is in the pipe into a socket that is full, and holds the pipe's lock meanwhile.
BusyPipe::BusyPipe(spi::UniqueFd reads) : reads_(std::move(reads)) {
  std::tie(full_, drain_) = socket_pair(SOCK_STREAM);
  fill(full_.get());
  std::promise<pid_t> begun;
  auto thread = begun.get_future();
  thread_ = std::thread([this, &begun] {
    begun.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
    (void)::splice(reads_.get(), nullptr, full_.get(), nullptr, 1, 0);
  });
  const pid_t id = thread.get();
  while (!sleeps(id)) std::this_thread::yield();  // it sleeps nowhere else; the watchdog ends it if it never does
}

void BusyPipe::let_go() {
  if (!thread_.joinable()) return;
  std::array<char, 4096> junk;
  while (::recv(drain_.get(), junk.data(), junk.size(), MSG_DONTWAIT) > 0) {
  }
  thread_.join();
  for (spi::UniqueFd* file : {&reads_, &full_, &drain_}) file->reset();
}

BlockingFile::BlockingFile() : BlockingFile(filled_pipe()) {}

BlockingFile::BlockingFile(std::pair<spi::UniqueFd, spi::UniqueFd> ends)
    : file_(std::move(ends.second)), busy_(std::move(ends.first)) {}

}  // namespace weir::test
