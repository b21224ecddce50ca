// SPDX-License-Identifier: Apache-2.0
#include "replay/trace.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace weir::replay {
namespace {

constexpr std::size_t most_operations = std::numeric_limits<std::uint32_t>::max() - 2;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;
constexpr std::uint64_t largest_alignment = std::uint64_t{1} << 30;

}  // namespace

const char* to_string(Action action) noexcept {
  switch (action) {
    case Action::allocate: return "allocate";
    case Action::close: return "close";
    case Action::use: return "use";
    case Action::trim: return "trim";
  }
  return "unknown";
}

const char* to_string(Format format) noexcept {
  switch (format) {
    case Format::weir: return "weir";
    case Format::pytorch: return "PyTorch";
    case Format::rmm: return "RMM";
  }
  return "unknown";
}

std::uint32_t TraceBuilder::index(Indexes& indexes, std::uint64_t name) {
  return indexes.try_emplace(name, static_cast<std::uint32_t>(indexes.size())).first->second;
}

Operation& TraceBuilder::add(const Origin& origin, Action action) {
  if (trace_.operations.size() >= most_operations) throw TraceError(origin.line, "too many operations");
  Operation& operation = trace_.operations.emplace_back();
  operation.action = action;
  operation.thread = index(threads_, origin.thread);
  operation.line = static_cast<std::uint32_t>(std::min<std::uint64_t>(origin.line, most_operations));
  return operation;
}

void TraceBuilder::put_on(Operation& operation, std::uint32_t buffer) {
  History& history = buffers_[buffer];
  operation.buffer = buffer;
  operation.turn = history.turns++;
  history.shared = history.shared || history.thread != operation.thread;
}

void TraceBuilder::open(const Origin& origin, std::uint64_t bytes, std::uint64_t alignment, bool refused) {
  if (bytes >= most_bytes)
    throw TraceError(origin.line, std::to_string(bytes) + " bytes are no size of a buffer");
  if (!std::has_single_bit(alignment) || alignment > largest_alignment) {
    throw TraceError(origin.line,
                     "alignment " + std::to_string(alignment) + " is no power of two of at most 1 GiB");
  }
  Operation& operation = add(origin, Action::allocate);
  operation.bytes = bytes;
  operation.alignment = alignment;
  operation.stream = index(streams_, origin.stream);
  operation.refused = refused;
  const auto buffer = static_cast<std::uint32_t>(buffers_.size());
  buffers_.push_back({bytes, operation.thread, operation.stream, 0, false});
  put_on(operation, buffer);
}

void TraceBuilder::allocate(const Origin& origin, std::uint64_t id, std::uint64_t bytes,
                            std::uint64_t alignment) {
  const auto [place, fresh] =
      live_.try_emplace(id, Live{origin.line, static_cast<std::uint32_t>(buffers_.size())});
  if (!fresh) {
    throw TraceError(origin.line, "allocates a buffer that line " + std::to_string(place->second.line) +
                                      " allocated and nobody closed");
  }
  open(origin, bytes, alignment, false);
  live_bytes_ += bytes;
  if (live_bytes_ >= most_bytes) throw TraceError(origin.line, "more bytes are in use than there can be");
  trace_.peak_live = std::max(trace_.peak_live, live_bytes_);
}

void TraceBuilder::refuse(const Origin& origin, std::uint64_t bytes, std::uint64_t alignment) {
  open(origin, bytes, alignment, true);
  ++trace_.refused;
  Operation& end = add(origin, Action::close);
  end.refused = true;
  end.stream = buffers_.back().stream;
  put_on(end, static_cast<std::uint32_t>(buffers_.size() - 1));
}

void TraceBuilder::use(const Origin& origin, std::uint64_t id) {
  const auto found = live_.find(id);
  if (found == live_.end()) throw TraceError(origin.line, "uses a buffer that is not allocated");
  Operation& operation = add(origin, Action::use);
  operation.stream = index(streams_, origin.stream);
  put_on(operation, found->second.buffer);
}

void TraceBuilder::close(const Origin& origin, std::uint64_t id) {
  const auto found = live_.find(id);
  if (found == live_.end()) {
    ++trace_.unknown_closes;
    return;
  }
  const History& history = buffers_[found->second.buffer];
  live_bytes_ -= history.bytes;
  Operation& operation = add(origin, Action::close);
  operation.stream = index(streams_, origin.stream);
  operation.elsewhere = operation.stream != history.stream;
  put_on(operation, found->second.buffer);
  live_.erase(found);
}

void TraceBuilder::trim(const Origin& origin, std::uint64_t bytes_to_keep) {
  add(origin, Action::trim).bytes = bytes_to_keep;
}

Trace TraceBuilder::finish() && {
  for (Operation& operation : trace_.operations) {
    operation.shared = operation.action != Action::trim && buffers_[operation.buffer].shared;
  }
  trace_.buffers = buffers_.size();
  trace_.streams = streams_.size();
  trace_.threads = threads_.size();
  trace_.left_open = live_.size();
  return std::move(trace_);
}

}  // namespace weir::replay
