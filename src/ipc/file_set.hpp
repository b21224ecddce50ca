// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files that one thread waits for, and the bell by which others wake it.

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// A set of the kernel's (epoll) with an eventfd in it. Its functions may be called by several threads at once.
class FileSet {
 public:
  /// What a wait found.
  struct Ready {
    std::span<const epoll_event> events;  ///< of files; `data.u64` is the key of each
    bool rung = false;                    ///< somebody rang since the last wait
    bool all = false;                     ///< there was room for everything that was ready
    int error = 0;                        ///< not 0 if the set cannot be waited for any more
    [[nodiscard]] bool nothing() const noexcept { return events.empty() && !rung; }
  };

  /// No set.
  FileSet() noexcept = default;
  /// An empty set. Throws, in the name of `purpose`, if no files can be opened for it.
  [[nodiscard]] static FileSet make(const char* purpose);
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(epoll_); }

  /// Wake the thread that waits, or the one that waits next. Return false if that is impossible.
  bool ring() const noexcept;
  /// Wait for at most so many milliseconds, or without a limit if they are negative. A signal ends the wait, too.
  [[nodiscard]] Ready wait(std::span<epoll_event> room, int milliseconds) const noexcept;

  // Each returns 0, or the number of an error. `events` are those of epoll; `key` is any number but the greatest.
  [[nodiscard]] int add(int file, std::uint32_t events, std::uint64_t key) const noexcept;
  [[nodiscard]] int change(int file, std::uint32_t events, std::uint64_t key) const noexcept;
  void remove(int file) const noexcept;

  /// Close the files of the set, not those that are in it.
  void reset() noexcept;
  /// Forget the files of the set, whose numbers somebody else may have closed and used again.
  void leak() noexcept;

 private:
  spi::UniqueFd epoll_, bell_;
};

}  // namespace weir::detail
