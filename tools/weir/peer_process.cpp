// SPDX-License-Identifier: Apache-2.0
#include "peer_process.hpp"

#include <fcntl.h>
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
pid_t spawn(Program words, int socket) {
  words.emplace_back(peer_command);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  check(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  pid_t id = -1;
  int error = posix_spawn_file_actions_adddup2(&actions, socket, peer_socket);
  if (error == 0) error = posix_spawn(&id, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(error, "posix_spawn");
  return id;
}

}  // namespace

PeerProcess::PeerProcess(const Program& program) {
  std::array<int, 2> ends{};
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0 ? errno : 0, "socketpair");
  socket_.reset(ends[0]);
  const spi::UniqueFd theirs{ends[1]};
  id_ = spawn(program, theirs.get());
}

PeerProcess::~PeerProcess() { finish(); }

char PeerProcess::answer() const {
  char byte = 0;
  ssize_t got = 0;
  do got = read(socket_.get(), &byte, 1);
  while (got < 0 && errno == EINTR);
  return got == 1 ? byte : char{0};
}

bool PeerProcess::finish() noexcept {
  socket_.reset();
  if (id_ < 0) return false;
  int status = 0;
  pid_t done = 0;
  do done = waitpid(id_, &status, 0);
  while (done < 0 && errno == EINTR);
  id_ = -1;
  return done > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace weir::cli
