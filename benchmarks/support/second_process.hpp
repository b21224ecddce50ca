// SPDX-License-Identifier: Apache-2.0
#pragma once
// A second process of the same program, for rows between processes whose drivers allow no fork.

#include <sys/types.h>

#include <optional>
#include <string>

#include "weir/spi/unique_fd.hpp"

namespace weir::bench {

/// What a second process does, by its name. One object at namespace scope, so that main() of that process knows it.
class SecondProcess {
 public:
  /// Talks by `socket`, whose hang-up ends it.
  using Body = void (*)(spi::UniqueFd socket);
  SecondProcess(std::string name, Body body);
  SecondProcess(const SecondProcess&) = delete;
  SecondProcess& operator=(const SecondProcess&) = delete;

  /// A process that runs. The destructor waits until it has ended by itself.
  class Running {
   public:
    explicit Running(pid_t id) noexcept : id_(id) {}
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running();

   private:
    pid_t id_;
  };
  /// Start it with `socket`. Throws std::system_error.
  [[nodiscard]] Running start(spi::UniqueFd socket) const;

  /// For main(): if this process is a second one, do what it is for, and return its status.
  static std::optional<int> run(int argc, char** argv);

 private:
  std::string name_;
  Body body_;
  const SecondProcess* next_;
};

}  // namespace weir::bench
