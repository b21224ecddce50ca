// SPDX-License-Identifier: Apache-2.0
#include "replay/report.hpp"

#include <array>
#include <chrono>
#include <cstdio>

#include "weir/json.hpp"
#include "weir/labels.hpp"
#include "weir/table.hpp"
#include "weir/version.hpp"

namespace weir::replay {
namespace {

using cli::Json;
using cli::size_text;

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string counted(std::uint64_t count, const std::string& what) {
  return grouped(count) + ' ' + what + (count == 1 ? "" : "s");
}

void add_line(std::string& out, const char* label, const std::string& text) {
  std::array<char, 16> padded{};
  std::snprintf(padded.data(), padded.size(), "%-10s", label);
  out += padded.data() + text + '\n';
}

std::string describe(const Trace& trace) {
  std::string text = to_string(trace.format) + std::string(" trace, ") +
                     counted(trace.operations.size(), "operation") + ", " + counted(trace.buffers, "buffer") +
                     ", " + counted(trace.streams, "stream") + ", " + counted(trace.threads, "thread");
  if (!trace.resource.empty()) text += "; recorded on " + trace.device + ' ' + trace.resource;
  return text;
}

void add_notes(std::string& out, const Replay& replay) {
  const Trace& trace = *replay.trace;
  if (trace.torn) add_line(out, "note", "the file ends within a line, which was left out");
  if (trace.unknown_closes != 0) {
    add_line(out, "note",
             counted(trace.unknown_closes, "close") + " of buffers from before the trace, left out");
  }
  if (trace.empty != 0) add_line(out, "note", counted(trace.empty, "operation") + " on zero bytes, left out");
  if (trace.refused != 0) {
    add_line(out, "note",
             counted(trace.refused, "allocation") +
                 " failed when it was recorded; tried again, and closed at once");
  }
  if (trace.left_open != 0)
    add_line(out, "note", counted(trace.left_open, "buffer") + " never closed in the trace");
  if (replay.threads > 1 && replay.threads < trace.threads) {
    add_line(out, "note", "the threads were folded onto " + std::to_string(replay.threads));
  }
  if (replay.streams < trace.streams) {
    add_line(out, "note", "the streams were folded onto " + std::to_string(replay.streams));
  }
}

std::string times_of(const Trace& trace, const Pass& pass) {
  cli::Table table{{"", "part", "count", "mean", "p50", "p99", "p99.9", "max"}, 2};
  for (const auto& [action, part, summary] : figures_of(trace, pass).rows) {
    const auto mean = summary.count == 0 ? 0 : summary.total / summary.count;
    table.add({part == Part::first_half ? to_string(action) : "", to_string(part), grouped(summary.count),
               short_time(mean), short_time(summary.p50), short_time(summary.p99), short_time(summary.p999),
               short_time(summary.max)});
  }
  return table.text(2);
}

void add_pass(std::string& out, const Replay& replay, std::size_t which) {
  const Trace& trace = *replay.trace;
  const Pass& pass = replay.passes[which];
  out += "\npass " + std::to_string(which + 1) +
         (which == 0 ? ", on a new resource: " : ", on the warm resource: ") + short_time(pass.wall) + '\n' +
         times_of(trace, pass);
  add_line(out, "peak",
           size_text(trace.peak_live) + " live, " + size_text(pass.peak_reserved) + " reserved, ratio " +
               fixed(ratio(pass.peak_reserved, trace.peak_live), 4));
  add_line(out, "driver",
           counted(pass.driver_allocations, "allocation") + "; the pool grew " + counted(pass.grown, "time") +
               ", gave back " + counted(pass.given_back, "segment") + ", let a stream wait " +
               counted(pass.waits, "time"));
  add_line(out, "failures", grouped(pass.failures));
  for (const std::string& message : pass.messages) out += "  " + message + '\n';
}

void write_pass(Json& json, const Trace& trace, const Pass& pass) {
  json.open('{').pair("wall_ns", pass.wall).pair("stamp_cost_ns", pass.stamp_cost).pair("clock", pass.clock);
  json.key("operations").open('[');
  for (const auto& [action, part, summary] : figures_of(trace, pass).rows) {
    json.open('{')
        .pair("operation", to_string(action))
        .pair("part", to_string(part))
        .pair("count", summary.count)
        .pair("p50_ns", summary.p50)
        .pair("p99_ns", summary.p99)
        .pair("p99_9_ns", summary.p999)
        .pair("max_ns", summary.max)
        .pair("total_ns", summary.total)
        .close('}');
  }
  json.close(']')
      .pair("peak_reserved", pass.peak_reserved)
      .pair("ratio", ratio(pass.peak_reserved, trace.peak_live))
      .pair("driver_allocations", pass.driver_allocations)
      .pair("grown", pass.grown)
      .pair("given_back", pass.given_back)
      .pair("waits", pass.waits)
      .pair("failures", pass.failures)
      .key("messages")
      .open('[');
  for (const std::string& message : pass.messages) json.value(message);
  json.close(']').close('}');
}

}  // namespace

std::size_t Replay::failures() const noexcept {
  std::size_t count = 0;
  for (const Pass& pass : passes) count += pass.failures;
  return count;
}

std::string short_time(std::uint64_t nanoseconds) {
  if (nanoseconds < 1000) return std::to_string(nanoseconds) + " ns";
  return cli::time_text(std::chrono::nanoseconds{nanoseconds});
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ' ');
  return text;
}

std::string text_of(const Replay& replay) {
  std::string out;
  add_line(out, "trace", replay.file + ": " + describe(*replay.trace));
  add_line(out, "resource", replay.spec + ": " + replay.resource + " on " + replay.device);
  add_line(out, "played",
           "by " + counted(replay.threads, "thread") + " on " + counted(replay.streams, "stream") +
               "; times by " + replay.passes.front().clock + ", less the " +
               fixed(replay.passes.front().stamp_cost, 1) + " ns that a pair of stamps takes");
  add_notes(out, replay);
  for (std::size_t i = 0; i < replay.passes.size(); ++i) add_pass(out, replay, i);
  return out;
}

std::string json_of(const Replay& replay) {
  const Trace& trace = *replay.trace;
  Json json;
  json.open('{')
      .pair("version", WEIR_VERSION_STRING)
      .pair("trace", replay.file)
      .pair("format", to_string(trace.format))
      .pair("spec", replay.spec)
      .pair("resource", replay.resource)
      .pair("device", replay.device)
      .pair("operations", trace.operations.size())
      .pair("buffers", trace.buffers)
      .pair("streams", trace.streams)
      .pair("threads", trace.threads)
      .pair("threads_used", replay.threads)
      .pair("streams_used", replay.streams)
      .pair("torn", trace.torn)
      .pair("unknown_closes", trace.unknown_closes)
      .pair("zero_bytes", trace.empty)
      .pair("refused_when_recorded", trace.refused)
      .pair("left_open", trace.left_open)
      .pair("peak_live", trace.peak_live)
      .pair("failures", replay.failures())
      .key("passes")
      .open('[');
  for (const Pass& pass : replay.passes) write_pass(json, trace, pass);
  json.close(']').close('}');
  return json.text() + '\n';
}

}  // namespace weir::replay
