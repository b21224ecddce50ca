// SPDX-License-Identifier: Apache-2.0
#pragma once
// Second processes: spawned, never forked, because a GPU driver may be loaded; killed and reaped in any case.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/spi/unique_fd.hpp"

namespace weir::test {

/// Both ends of a new Unix-domain socket pair of `type`, close-on-exec.
std::pair<spi::UniqueFd, spi::UniqueFd> socket_pair(int type);

/// One line of text over a stream socket, for programs that agree on what happens next. Byte by byte, so that a
/// descriptor may follow.
void write_line(int socket, std::string_view line);
/// Without the end of line; empty at the end of the stream.
std::string read_line(int socket);

/// A program with one end of a stream socket pair as descriptor 3.
class Child {
 public:
  static constexpr int socket_in_child = 3;

  Child(const std::string& program, const std::vector<std::string>& arguments);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] int id() const { return pid_; }  ///< of the process
  /// What it says next; empty when it ended.
  [[nodiscard]] std::string line() const { return read_line(socket()); }
  void say(std::string_view line) const { write_line(socket(), line); }
  /// End it by SIGKILL and wait until it is gone.
  void kill();
  /// Stop it by SIGSTOP.
  void stop() const;
  /// Wait for its end; its exit code, or minus the signal.
  int wait();

 private:
  spi::UniqueFd socket_;
  int pid_ = -1;
};

/// What main() of such a child does: print crashes, do `run`, and tell the parent what it returned or threw. Return the
/// exit status, 0 if that line was `well` and the parent's end was open.
int run_child(const std::function<std::string()>& run, std::string_view well = "done") noexcept;

}  // namespace weir::test
