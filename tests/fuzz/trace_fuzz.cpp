// SPDX-License-Identifier: Apache-2.0
// The text of a trace, of any format: refused by line, or a list of operations that can be played.

#include <algorithm>
#include <vector>

#include "replay/read_trace.hpp"
#include "target.hpp"

namespace weir::fuzz {
namespace {

using replay::Action;
using replay::Operation;
using replay::Trace;

struct Life {
  std::uint32_t turns = 0;
  std::uint32_t thread = 0;
  std::uint64_t bytes = 0;
  bool open = false;
  bool shared = false;
};

void check(const Operation& operation, const Trace& trace, std::vector<Life>& buffers) {
  require(operation.thread < trace.threads, "a thread that is not there");
  if (operation.action == Action::trim) return;
  require(operation.buffer < trace.buffers, "a buffer that is not there");
  require(operation.stream < trace.streams, "a stream that is not there");
  Life& life = buffers[operation.buffer];
  require(operation.turn == life.turns++, "a turn is left out");
  require((operation.action == Action::allocate) == (operation.turn == 0), "not allocated first, or twice");
  if (operation.action == Action::allocate) {
    require(operation.bytes > 0 && operation.alignment > 0, "nothing is allocated");
    life.thread = operation.thread;
    life.bytes = operation.bytes;
  } else {
    require(life.open, "used after its close");
  }
  life.open = operation.action != Action::close;
  life.shared = life.shared || operation.thread != life.thread;
}

void run_trace(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Trace trace;
  try {
    trace = replay::parse_trace(text);
  } catch (const replay::TraceError& error) {
    const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
    require(error.line() >= 1 && error.line() <= std::max<std::uint64_t>(lines, 1),
            "an error in a line that is not there");
    return;
  }
  require(trace.torn == !text.ends_with('\n'), "a torn line is not said");
  std::vector<Life> buffers(trace.buffers);
  std::uint64_t live = 0, peak = 0;
  std::uint32_t line = 1;
  for (const Operation& operation : trace.operations) {
    require(operation.line >= line, "lines go back");
    line = operation.line;
    check(operation, trace, buffers);
    if (operation.refused) continue;
    if (operation.action == Action::allocate) peak = std::max(peak, live += operation.bytes);
    if (operation.action == Action::close) live -= buffers[operation.buffer].bytes;
  }
  require(peak == trace.peak_live, "another peak");
  const auto open = std::count_if(buffers.begin(), buffers.end(), [](const Life& life) { return life.open; });
  require(static_cast<std::size_t>(open) == trace.left_open, "another number of open buffers");
  for (const Operation& operation : trace.operations) {
    require(operation.shared == (operation.action != Action::trim && buffers[operation.buffer].shared),
            "who shares a buffer is not known");
  }
}

const Register registered("trace", &run_trace);

}  // namespace
}  // namespace weir::fuzz
