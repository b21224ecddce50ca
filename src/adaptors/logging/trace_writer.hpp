// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines on their way to a file. Threads collect them in one of two buffers while one thread writes the other.

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// Once it is made, it allocates nothing and never throws.
class TraceWriter {
 public:
  /// Writes all of a text, or throws. Called by one thread at a time, without the lock.
  using Sink = std::function<void(std::string_view)>;

  TraceWriter(Sink sink, std::size_t buffer_bytes);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// Longer lines are cut.
  static constexpr std::size_t longest_line = 1024;
  /// Append a line, which ends with a line feed.
  void add(std::string_view line) noexcept;
  void flush() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  void write_all(Lock& lock) noexcept;
  void write_out(Lock& lock) noexcept;
  [[nodiscard]] std::exception_ptr write() noexcept;
  void turn_off(const std::exception_ptr& failure, Lock& lock) noexcept;
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept;

  const Sink sink_;
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable written_;
  std::vector<char> filling_, writing_;  // have room for the most that they ever hold
  bool busy_ = false;                    // a thread writes writing_
  bool off_ = false;                     // writing failed, or this is a forked child
  spi::ForkLink link_{*this};            // must be the last member
};

}  // namespace weir::detail
