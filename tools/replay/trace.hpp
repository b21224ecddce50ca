// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program did with memory: a list of operations on numbered buffers, streams and threads. read_trace.hpp makes
// it from text.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace weir::replay {

enum class Action : std::uint8_t { allocate, close, use, trim };
inline constexpr std::size_t actions = 4;
[[nodiscard]] const char* to_string(Action action) noexcept;

/// Buffers, streams and threads are indexes from 0, in the order in which they appear.
struct Operation {
  std::uint64_t bytes = 0;  ///< asked for; for a trim, the bytes to keep
  std::uint64_t alignment = 0;
  std::uint32_t buffer = 0;
  std::uint32_t stream = 0;
  std::uint32_t thread = 0;
  std::uint32_t turn = 0;  ///< how many operations on this buffer come before
  std::uint32_t line = 0;  ///< of the text, from 1
  Action action = Action::allocate;
  bool elsewhere = false;  ///< a close that is ordered after a stream other than the allocation's
  bool shared = false;     ///< the buffer is used by more than one thread: wait for its turn
  bool refused = false;    ///< failed when it was recorded; its close follows at once
};

enum class Format : std::uint8_t { weir, pytorch, rmm };
[[nodiscard]] const char* to_string(Format format) noexcept;

struct Trace {
  Format format = Format::weir;
  std::string device, resource;  ///< as recorded; empty when the format does not say
  std::vector<Operation> operations;
  std::size_t buffers = 0, streams = 0, threads = 0;  ///< counts
  std::uint64_t peak_live = 0;     ///< largest sum of requested bytes, in the order of the text
  std::size_t left_open = 0;       ///< buffers that are never closed
  std::size_t refused = 0;         ///< allocations that failed when they were recorded; they are tried again
  std::size_t unknown_closes = 0;  ///< closes of buffers from before the trace; left out
  std::size_t empty = 0;           ///< operations on buffers of zero bytes; left out
  bool torn = false;  ///< the text ends within a line or a compressed block; that line is left out
};

/// Why a text is not a trace. The message begins with the line, or with the file and the line.
class TraceError : public std::runtime_error {
 public:
  TraceError(std::uint64_t line, const std::string& message)
      : std::runtime_error("line " + std::to_string(line) + ": " + message), line_(line) {}
  TraceError(const TraceError& error, const std::string& file)
      : std::runtime_error(file + ": " + error.what()), line_(error.line_) {}
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }

 private:
  std::uint64_t line_;
};

/// Where an operation comes from. Thread and stream are as the text names them.
struct Origin {
  std::uint64_t thread = 0;
  std::uint64_t stream = 0;
  std::uint64_t line = 0;
};

/// Gives out the indexes, and checks that buffers are allocated once before they are used and closed. Throws
/// TraceError.
class TraceBuilder {
 public:
  void allocate(const Origin& origin, std::uint64_t id, std::uint64_t bytes, std::uint64_t alignment);
  /// Add an allocation that failed when it was recorded, and its close.
  void refuse(const Origin& origin, std::uint64_t bytes, std::uint64_t alignment);
  void use(const Origin& origin, std::uint64_t id);
  void close(const Origin& origin, std::uint64_t id);
  void trim(const Origin& origin, std::uint64_t bytes_to_keep);
  void skip_empty() noexcept { ++trace_.empty; }
  [[nodiscard]] Trace finish() &&;

 private:
  struct Live {
    std::uint64_t line;
    std::uint32_t buffer;
  };
  struct History {
    std::uint64_t bytes;
    std::uint32_t thread;
    std::uint32_t stream;
    std::uint32_t turns;
    bool shared;
  };
  using Indexes = std::unordered_map<std::uint64_t, std::uint32_t>;
  static std::uint32_t index(Indexes& indexes, std::uint64_t name);
  Operation& add(const Origin& origin, Action action);
  void put_on(Operation& operation, std::uint32_t buffer);
  void open(const Origin& origin, std::uint64_t bytes, std::uint64_t alignment, bool refused);

  Trace trace_;
  Indexes streams_, threads_;
  std::unordered_map<std::uint64_t, Live> live_;
  std::vector<History> buffers_;
  std::uint64_t live_bytes_ = 0;
};

}  // namespace weir::replay
