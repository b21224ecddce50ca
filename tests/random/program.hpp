// SPDX-License-Identifier: Apache-2.0
#pragma once
// A random program: a plain list of steps, a line of text each, to be printed, replayed and shortened.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::test::random {

/// What a step does. The first word of its line after the process's number; program.cpp lists the arguments.
enum class Verb : std::uint8_t {
  stream, resource, alloc, write, read, copy, assign, clone, fill, share, slice, poke, peek, call_write,
  call_read, close, close_on, record, wait, sync, await, probe, ask, gate, hold, open, drop, forget, trim,
  export_tensor, import_tensor, delete_tensor, look, send, receive, connect, pack, post, take, miss, hang, die, meet,
  lose
};

/// One step of one process. Objects are numbered: stream 3 is "s3" in text. Numbers are never used twice.
struct Op {
  int process = 0;
  Verb verb{};
  std::vector<std::uint64_t> args;  ///< objects and numbers, in the order of the line
  std::vector<std::string> words;
  friend bool operator==(const Op&, const Op&) = default;
};

using Program = std::vector<Op>;

[[nodiscard]] std::string to_text(const Op& op);
[[nodiscard]] std::string to_text(const Program& program);
/// Throws std::invalid_argument naming the line. Empty lines and lines that begin with # are skipped.
[[nodiscard]] Program parse(std::string_view text);

/// Bytes that a step puts into memory: a pattern of its own. Empty for steps that make none.
[[nodiscard]] std::vector<std::byte> bytes_of(const Op& op);
/// The pattern of a fill, in the low bytes.
[[nodiscard]] std::uint64_t fill_pattern_of(const Op& op);

}  // namespace weir::test::random
