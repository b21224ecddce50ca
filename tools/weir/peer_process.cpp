// SPDX-License-Identifier: Apache-2.0
#include "peer_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

namespace weir::cli {
namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// Start the peer. In the child, dup2 clears close-on-exec on its copy only.
pid_t spawn(Program words, std::initializer_list<std::string_view> more, int socket, int number) {
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  check(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  pid_t id = -1;
  int error = posix_spawn_file_actions_adddup2(&actions, socket, number);
  if (error == 0) error = posix_spawn(&id, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(error, "posix_spawn");
  return id;
}

}  // namespace

PeerProcess::PeerProcess(const Program& program, std::initializer_list<std::string_view> words, int type, int number) {
  std::array<int, 2> ends{};
  check(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0 ? errno : 0, "socketpair");
  socket_.reset(ends[0]);
  const spi::UniqueFd theirs{ends[1]};
  id_ = spawn(program, words, theirs.get(), number);
}

PeerProcess::~PeerProcess() { (void)end(); }

char PeerProcess::answer() const {
  char byte = 0;
  ssize_t got = 0;
  do got = read(socket_.get(), &byte, 1);
  while (got < 0 && errno == EINTR);
  return got == 1 ? byte : char{0};
}

void PeerProcess::signal(int number) const noexcept { (void)::kill(id_, number); }

int PeerProcess::end() noexcept {
  socket_.reset();
  if (id_ < 0) return 1;
  int status = 0;
  pid_t done = 0;
  do done = waitpid(id_, &status, 0);
  while (done < 0 && errno == EINTR);
  id_ = -1;
  if (done < 0) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace weir::cli
