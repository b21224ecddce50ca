// SPDX-License-Identifier: Apache-2.0
#include "spawn.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "crash.hpp"

extern char** environ;

namespace weir::test {
namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

std::pair<spi::UniqueFd, spi::UniqueFd> socket_pair(int type) {
  int ends[2];
  check(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno, "socketpair");
  return {spi::UniqueFd(ends[0]), spi::UniqueFd(ends[1])};
}

void write_line(int socket, std::string_view line) {
  const std::string text = std::string(line) + '\n';
  const auto sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(text.size())) throw std::runtime_error("the other process is gone");
}

std::string read_line(int socket) {
  std::string line;
  for (char next = 0; ::recv(socket, &next, 1, 0) == 1 && next != '\n';) line += next;
  return line;
}

Child::Child(const std::string& program, const std::vector<std::string>& arguments) {
  auto [mine, theirs] = socket_pair(SOCK_STREAM);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  check(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  // Not the same number: dup2 onto itself would leave close-on-exec set.
  const spi::UniqueFd passed(fcntl(theirs.get(), F_DUPFD_CLOEXEC, socket_in_child + 1));
  posix_spawn_file_actions_adddup2(&actions, passed.get(), socket_in_child);
  const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(error, program.c_str());
  socket_ = std::move(mine);
}

Child::~Child() { kill(); }

void Child::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

void Child::stop() const { ::kill(pid_, SIGSTOP); }

int Child::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int run_child(const std::function<std::string()>& run, std::string_view well) noexcept try {
  print_crashes();
  std::string said;
  try {
    said = run();
  } catch (const std::exception& error) {
    said = std::string("throws: ") + error.what();
  }
  write_line(Child::socket_in_child, said);
  return said == well ? 0 : 1;
} catch (const std::exception&) {  // nobody listens any more
  return 1;
}

}  // namespace weir::test
