// SPDX-License-Identifier: Apache-2.0
#pragma once
// The program that is killed, and what it agrees on with the tests.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bytes.hpp"
#include "spawn.hpp"
#include "time_limits.hpp"
#include "tracer.hpp"
#include "weir/device.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {

inline const std::chrono::seconds kill_limit = answer_limit();  ///< of every call; a dead peer is noticed before
inline constexpr std::uint32_t kill_count = 3;                  ///< buffers, tensors or frames of a scenario
inline constexpr std::size_t kill_bytes = 600;                  ///< of each

/// Return the bytes of the one at `index` when they are written for the `round`-th time.
inline Bytes kill_pattern(std::uint32_t index, std::uint32_t round = 0) {
  return pattern(kill_bytes, 1 + index + 100 * round);
}

/// Whether the role begins with a socket, which the process gets as the file of a descriptor.
inline bool needs_socket(std::string_view role) {
  return role == "lend" || role == "borrow" || role == "produce" || role == "consume";
}

/// The program kill_child in a role, which it plays after go().
class Victim {
 public:
  /// It will be killed right before one of its system calls after go(), counted from 1; by 0 it is not.
  Victim(std::string_view role, const Device& device, const std::string& path, std::uint64_t kill_before);
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim() { (void)end(); }

  /// Return the other end of its socket.
  [[nodiscard]] spi::UniqueFd take_socket() { return std::move(socket_); }
  /// Return the socket on which lines are said, and descriptors sent.
  [[nodiscard]] int lines() const { return child_.socket(); }
  /// Let it begin.
  void go();
  /// Return what it says next; empty when it is dead.
  [[nodiscard]] std::string line() const { return child_.line(); }
  /// Say a line if it lives.
  void say(std::string_view what) const;
  /// End it if it lives. Return how many system calls it began after go().
  std::uint64_t end();

 private:
  Child child_;
  spi::UniqueFd socket_;
  const std::uint64_t kill_before_;
  std::optional<Tracer> tracer_;
};

}  // namespace weir::test
