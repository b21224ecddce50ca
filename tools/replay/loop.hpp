// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loop that is timed. Everything it needs is prepared: operations, buffers and times are arrays, and between two
// stamps there is the operation alone.

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "replay/clock.hpp"
#include "replay/player.hpp"

namespace weir::replay {

/// The failures of all threads.
class Failures {
 public:
  void add(const std::string& message) {
    const std::scoped_lock lock(mutex_);
    ++count_;
    if (messages_.size() < most) messages_.push_back(message);
  }
  void move_to(Pass& pass) {
    const std::scoped_lock lock(mutex_);
    pass.failures = count_;
    pass.messages = std::move(messages_);
  }

 private:
  static constexpr std::size_t most = 5;
  std::mutex mutex_;
  std::size_t count_ = 0;
  std::vector<std::string> messages_;
};

/// What the threads of one pass share.
struct Stage {
  const Trace& trace;
  MemoryResource& resource;
  std::span<const Stream> streams;
  std::span<Buffer> buffers;
  std::span<std::uint64_t> ticks;
  /// For each buffer, how many of its operations are done. Empty when there is one thread.
  std::span<std::atomic<std::uint32_t>> turns;
  Failures& failures;
};

/// Do operation `which` and note its time. Throws what the operation throws.
template <class Clock>
void perform(const Stage& stage, std::size_t which) {
  const Operation& operation = stage.trace.operations[which];
  const Stream& stream = stage.streams[operation.stream % stage.streams.size()];
  std::uint64_t begin = 0, end = 0;
  if (operation.action == Action::trim) {
    begin = Clock::begin();
    stage.resource.trim(static_cast<std::size_t>(operation.bytes));
    end = Clock::end();
    stage.ticks[which] = end - begin;
    return;
  }
  Buffer& buffer = stage.buffers[operation.buffer];
  if (operation.action == Action::allocate) {
    // Construct in place, so that no move is timed. The buffer that was there is closed and holds nothing.
    void* const place = &buffer;
    const auto bytes = static_cast<std::size_t>(operation.bytes);
    const auto alignment = static_cast<std::size_t>(operation.alignment);
    try {
      begin = Clock::begin();
      ::new (place) Buffer(stage.resource.allocate(bytes, stream, alignment));
      end = Clock::end();
    } catch (...) {
      ::new (place) Buffer();
      throw;
    }
  } else {
    if (buffer.is_closed()) return;  // its allocation failed
    if (operation.action == Action::use) {
      begin = Clock::begin();
      buffer.use_on(stream);
      end = Clock::end();
    } else if (operation.elsewhere) {
      begin = Clock::begin();
      buffer.close(stream);
      end = Clock::end();
    } else {
      begin = Clock::begin();
      buffer.close();
      end = Clock::end();
    }
  }
  stage.ticks[which] = end - begin;
}

inline void note_failure(const Stage& stage, std::size_t which, const char* what) {
  const Operation& operation = stage.trace.operations[which];
  stage.failures.add("line " + std::to_string(operation.line) + ": " + to_string(operation.action) + ": " +
                     what);
}

/// Do all operations, in order, on the calling thread.
template <class Clock>
void perform_all(const Stage& stage) {
  const std::size_t count = stage.trace.operations.size();
  for (std::size_t i = 0; i < count; ++i) {
    try {
      for (; i < count; ++i) perform<Clock>(stage, i);
    } catch (const std::exception& error) {
      note_failure(stage, i, error.what());
    }
  }
}

/// Do the operations of one thread. Those on a buffer that threads share wait for their turn.
template <class Clock>
void perform_some(const Stage& stage, std::span<const std::uint32_t> mine) {
  for (const std::uint32_t which : mine) {
    const Operation& operation = stage.trace.operations[which];
    auto* const turn = operation.shared ? &stage.turns[operation.buffer] : nullptr;
    if (turn) {
      for (auto now = turn->load(std::memory_order_acquire); now != operation.turn;
           now = turn->load(std::memory_order_acquire)) {
        turn->wait(now, std::memory_order_acquire);
      }
    }
    try {
      perform<Clock>(stage, which);
    } catch (const std::exception& error) {
      note_failure(stage, which, error.what());
    }
    if (turn) {
      turn->store(operation.turn + 1, std::memory_order_release);
      turn->notify_all();
    }
  }
}

}  // namespace weir::replay
