// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <string_view>
#include <system_error>

#include "weir/spi/unique_fd.hpp"

extern char** environ;

namespace weir::test {
namespace {

using Clock = std::chrono::steady_clock;

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

struct Pipe {
  Pipe() {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
    read = spi::UniqueFd(ends[0]);
    write = spi::UniqueFd(ends[1]);
  }
  spi::UniqueFd read, write;
};

pid_t start(const std::string& path, const std::vector<std::string>& arguments, const Pipe& out, const Pipe& err) {
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  check(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  check(posix_spawnattr_init(&attributes), "posix_spawnattr_init");
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, path.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  check(error, path.c_str());
  return pid;
}

// Both ends of file mean that nobody is left who could write.
bool read_all(std::span<pollfd, 2> ends, std::array<std::string*, 2> texts, Clock::time_point deadline) {
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (::poll(ends.data(), ends.size(), static_cast<int>(left)) <= 0) continue;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      std::array<char, 4096> part;
      const auto count = ::read(ends[i].fd, part.data(), part.size());
      if (count <= 0) ends[i].fd = -1;
      else texts[i]->append(part.data(), static_cast<std::size_t>(count));
    }
  }
  return true;
}

}  // namespace

Ended run(const std::string& program, const std::vector<std::string>& arguments, std::chrono::seconds limit) {
  Ended ended;
  Pipe out, err;
  const pid_t pid = start(std::string(WEIR_CHILD_DIR) + '/' + program, arguments, out, err);
  out.write = {};
  err.write = {};
  std::array<pollfd, 2> ends{{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
  const auto deadline = Clock::now() + limit;
  if (!read_all(ends, {&ended.out, &ended.err}, deadline)) {
    ended.late = true;
    ::kill(-pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ended;
}

testing::AssertionResult ends_well(const std::string& program, const std::vector<std::string>& arguments, int code) {
  const Ended ended = run(program, arguments);
  if (!ended.late && ended.code == code && ended.err.empty() && ended.out.ends_with("done\n")) {
    return testing::AssertionSuccess();
  }
  auto failure = testing::AssertionFailure() << program;
  for (const std::string& argument : arguments) failure << ' ' << argument;
  failure << (ended.late ? ": killed, because something hung" : "") << "; code " << ended.code << ", expected " << code;
  return failure << "\nstdout: " << ended.out << "\nstderr: " << ended.err;
}

}  // namespace weir::test
