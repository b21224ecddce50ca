// SPDX-License-Identifier: Apache-2.0
#include "second_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

namespace weir::bench {
namespace {

constexpr int socket_number = 3;
constexpr std::string_view option = "--second-process=";
constinit const SecondProcess* first = nullptr;

}  // namespace

SecondProcess::SecondProcess(std::string name, Body body)
    : name_(std::move(name)), body_(body), next_(std::exchange(first, this)) {}

SecondProcess::Running::~Running() { (void)::waitpid(id_, nullptr, 0); }

SecondProcess::Running SecondProcess::start(spi::UniqueFd socket) const {
  const spi::UniqueFd apart = socket.duplicate(socket_number + 1);  // dup2 of a number to itself would not open it there
  std::string argument(option);
  argument += name_;
  std::array<char*, 3> arguments{const_cast<char*>("bench"), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, apart.get(), socket_number);
  pid_t id = 0;
  const int error = ::posix_spawn(&id, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn");
  return Running(id);
}

std::optional<int> SecondProcess::run(int argc, char** argv) {
  if (argc != 2 || !std::string_view(argv[1]).starts_with(option)) return {};
  ::fcntl(socket_number, F_SETFD, FD_CLOEXEC);
  spi::UniqueFd socket(socket_number);
  for (const SecondProcess* one = first; one; one = one->next_) {
    if (one->name_ != std::string_view(argv[1]).substr(option.size())) continue;
    try {
      one->body_(std::move(socket));
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the second process: %s\n", error.what());
      return 1;
    }
  }
  std::fprintf(stderr, "%s names nothing that a second process does\n", argv[1]);
  return 2;
}

}  // namespace weir::bench
