// SPDX-License-Identifier: Apache-2.0
// What operations do to memory, to the order of things, and to the state by which runs are merged.
//
// The state is a sum of hashes, one for each thing that happened. The hash of a thing depends on the thread's last one
// and on the last write to its location. So two runs have the same sum when each thread did the same, each read saw the
// same write, and the writes to each location came in the same order. Nothing that follows can tell such runs apart.
#include <algorithm>
#include <cstring>

#include "engine.hpp"
#include "hash.hpp"

namespace weir::explore {
namespace {

constexpr std::uint64_t is_read = 20, is_store = 21, is_failure = 22;  // told apart in the hashes of what happens

bool acquires(std::memory_order order) noexcept {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}

bool releases(std::memory_order order) noexcept {
  return order != std::memory_order_relaxed && order != std::memory_order_acquire && order != std::memory_order_consume;
}

}  // namespace

// ---- locations ------------------------------------------------------------------------------------------------------

// True when the run touches it for the first time.
bool Engine::touch(Location& location) {
  if (!location.is_alive()) {
    fail(Fault::lifetime, location.text() + " was destroyed before T" + std::to_string(index(*current_)) + " uses it");
  }
  if (location.run == number()) return false;
  location.run = number();
  location.id = static_cast<std::uint32_t>(histories_.size());
  histories_.emplace_back();
  location.written = 0;
  location.released = location.accessed = location.wrote = {};
  return true;
}

std::uint64_t Engine::happen(Thread& thread, std::uint64_t depends_on) {
  ++thread.clock.at[index(thread)];
  thread.chain = mix(thread.chain, depends_on);
  sum_ += thread.chain;
  return thread.chain;
}

void Engine::happen_read(Thread& thread, Location& location) {
  happen(thread, mix(location.written, is_read));
  access(thread, location);
}

void Engine::happen_write(Thread& thread, Location& location) {
  location.written = happen(thread, location.written);
  access(thread, location);
}

void Engine::access(Thread& thread, Location& location) noexcept {
  location.accessed.at[index(thread)] = thread.clock.at[index(thread)];
}

void Engine::changed(const Location& location) noexcept { ++histories_[location.id].version; }

void Engine::saw(Thread& thread, const Location& location, bool old) {
  const auto version = histories_[location.id].version - (old ? 1 : 0);
  thread.looked_at |= bit(location);
  for (Seen& one : thread.seen) {
    if (one.id == location.id) {
      one.version = version;
      return;
    }
  }
  thread.seen.push_back({location.id, version});
}

// ---- store buffers --------------------------------------------------------------------------------------------------

const Engine::Buffered* Engine::newest(const Thread& thread, const Location& location) noexcept {
  if ((thread.buffered & bit(location)) == 0) return nullptr;
  for (auto one = thread.buffer.rbegin(); one != thread.buffer.rend(); ++one) {
    if (one->location == &location) return &*one;
  }
  return nullptr;
}

void Engine::flush(Thread& thread) {
  const Buffered one = thread.buffer.front();
  thread.buffer.erase(thread.buffer.begin());
  ++thread.gone;
  if (thread.lit != 0) --thread.lit;
  mask_buffer(thread);
  Location& location = *one.location;
  thread.flushed = mix(mix(thread.flushed, one.hash), location.written);
  sum_ += thread.flushed;
  location.written = thread.flushed;
  location.released = one.release ? one.clock : Clock{};
  std::uint64_t before = 0;
  std::memcpy(&before, one.memory, one.bytes);
  begin_history(location, before);
  remember(location, thread, one.clock.at[index(thread)], one.value);
  if (before != one.value) changed(location);
  std::memcpy(one.memory, &one.value, one.bytes);
  if (traced_) say(thread, "  flush", &location, "= " + value_text(one.value), {});
}

void Engine::mask_buffer(Thread& thread) noexcept {
  thread.buffered = 0;
  for (const Buffered& one : thread.buffer) thread.buffered |= bit(*one.location);
}

void Engine::drain(Thread& thread) {
  while (!thread.buffer.empty()) flush(thread);
}

// ---- old values -----------------------------------------------------------------------------------------------------

void Engine::begin_history(const Location& location, std::uint64_t value) {
  History& history = histories_[location.id];
  if (history.count != 0) return;
  history.last.front() = {value, 0, {}, 0, most_threads};
  history.count = 1;
}

void Engine::remember(const Location& location, const Thread& writer, std::uint32_t time, std::uint64_t value) {
  History& history = histories_[location.id];
  history.last.at(history.count % History::kept) = {value, location.written, location.released, time,
                                                    static_cast<std::uint8_t>(index(writer))};
  history.seen.at(index(writer)) = history.count;
  ++history.count;
}

// How many values before the last one a load sees: none that is older than what its thread saw there before, or than
// what happens before it.
std::uint32_t Engine::choose_age(const Thread& reader, const Location& location) {
  const History& history = histories_[location.id];
  if (history.count < 2 || (!replayed_ && (old_reads_ == options_.old_reads || preempted_ >= options_.preemptions)))
    return 0;
  const auto last = history.count - 1;
  const auto oldest = std::max(history.seen.at(index(reader)), history.count - std::min(history.count, History::kept));
  std::uint32_t least = last;
  for (; least > oldest; --least) {
    const Stored& one = history.last.at(least % History::kept);
    if (one.writer == most_threads || one.time <= reader.clock.at[one.writer]) break;
  }
  const auto age = outcome(last - least + 1);
  if (age != 0) {
    ++old_reads_;
    ++preempted_;
  }
  return age;
}

// ---- atomic operations ----------------------------------------------------------------------------------------------

std::uint64_t Engine::load(Location& location, const void* memory, std::size_t bytes, std::memory_order order,
                           Where where) {
  point(Act::load, location, where);
  Thread& me = *current_;
  std::uint64_t value = 0;
  std::uint32_t age = 0;
  const Buffered* const own = newest(me, location);
  if (own) {
    value = own->value;
    happen(me, own->hash);
    access(me, location);
  } else {
    std::memcpy(&value, memory, bytes);
    begin_history(location, value);
    if (order != std::memory_order_seq_cst) age = choose_age(me, location);
    History& history = histories_[location.id];
    const auto number = history.count - 1 - age;
    const Stored& stored = history.last.at(number % History::kept);
    history.seen.at(index(me)) = number;
    value = stored.value;
    happen_read(me, location);
    if (age != 0) happen(me, mix(stored.hash, age));
    if (acquires(order)) me.clock.join(stored.released);
  }
  saw(me, location, age != 0);
  if (traced_) {
    const auto* const from = own ? ", from its buffer" : age != 0 ? ", an old value" : "";
    say(me, "load", &location, "-> " + value_text(value) + ", " + to_string(order) + from, where);
  }
  return value;
}

void Engine::store(Location& location, void* memory, std::size_t bytes, std::uint64_t value, std::memory_order order,
                   Where where) {
  const bool at_once = order == std::memory_order_seq_cst || !options_.store_buffers;
  point(at_once ? Act::modify : Act::store, location, where);
  Thread& me = *current_;
  if (traced_) say(me, "store", &location, "= " + value_text(value) + ", " + to_string(order), where);
  happen(me, is_store);
  access(me, location);
  me.buffer.push_back(
      {&location, memory, value, static_cast<std::uint8_t>(bytes), releases(order), me.clock, me.chain});
  me.buffered |= bit(location);
  if (at_once) drain(me);
}

void Engine::begin_modify(Location& location, Where where) {
  point(Act::modify, location, where);
  drain(*current_);
}

bool Engine::fails_for_no_reason() {
  if (!replayed_ && (weak_failures_ == options_.weak_failures || preempted_ >= options_.preemptions)) return false;
  if (outcome(2) == 0) return false;
  ++weak_failures_;
  ++preempted_;
  happen(*current_, is_failure);
  return true;
}

void Engine::end_modify(Location& location, std::memory_order order, std::uint64_t before, std::uint64_t after,
                        Where where) {
  Thread& me = *current_;
  happen_write(me, location);
  if (acquires(order)) me.clock.join(location.released);
  if (releases(order)) location.released.join(me.clock);  // and goes on with what others released there
  begin_history(location, before);
  remember(location, me, me.clock.at[index(me)], after);
  if (before != after) changed(location);
  saw(me, location);
  if (traced_) {
    say(me, "modify", &location, value_text(before) + " -> " + value_text(after) + ", " + to_string(order), where);
  }
}

void Engine::end_failed_modify(Location& location, std::memory_order order, std::uint64_t seen, Where where) {
  Thread& me = *current_;
  happen_read(me, location);
  if (acquires(order)) me.clock.join(location.released);
  begin_history(location, seen);
  histories_[location.id].seen.at(index(me)) = histories_[location.id].count - 1;
  saw(me, location);
  if (traced_) say(me, "compare", &location, "-> " + value_text(seen) + ", not exchanged, " + to_string(order), where);
}

// ---- plain data -----------------------------------------------------------------------------------------------------

// Not a point where others may come between: an access that races does so however long it takes.
void Engine::read_plain(Location& location) {
  touch(location);
  Thread& me = *current_;
  const auto now = ++me.clock.at[index(me)];
  for (std::size_t i = 0; i < count_; ++i) {
    if (location.wrote.at[i] > me.clock.at[i]) {
      fail(Fault::race, "T" + std::to_string(index(me)) + " reads " + location.text() + ", which T" +
                            std::to_string(i) + " wrote, and nothing orders them");
    }
  }
  location.accessed.at[index(me)] = now;
  if (traced_) say(me, "read", &location, "plain", {});
}

void Engine::write_plain(Location& location) {
  touch(location);
  Thread& me = *current_;
  const auto now = ++me.clock.at[index(me)];
  for (std::size_t i = 0; i < count_; ++i) {
    if (location.accessed.at[i] > me.clock.at[i]) {
      fail(Fault::race, "T" + std::to_string(index(me)) + " writes " + location.text() + ", which T" +
                            std::to_string(i) + (location.wrote.at[i] > me.clock.at[i] ? " wrote" : " read") +
                            ", and nothing orders them");
    }
  }
  location.accessed.at[index(me)] = location.wrote.at[index(me)] = now;
  if (traced_) say(me, "write", &location, "plain", {});
}

void Engine::destroy(Location& location) {
  touch(location);
  Thread& me = *current_;
  for (std::size_t i = 0; i < count_; ++i) {
    if (location.accessed.at[i] > me.clock.at[i]) {
      fail(Fault::lifetime, "T" + std::to_string(index(me)) + " destroys " + location.text() + ", which T" +
                                std::to_string(i) + " used, and nothing orders them");
    }
  }
  happen_write(me, location);
  // Its own stores to it, which nobody will see. Those of others are in memory, or the check above had failed.
  for (std::size_t i = me.buffer.size(); i-- != 0;) {
    if (me.buffer[i].location != &location) continue;
    me.buffer.erase(me.buffer.begin() + static_cast<std::ptrdiff_t>(i));
    if (i < me.lit) --me.lit;
    ++me.gone;
  }
  mask_buffer(me);
  if (traced_) say(me, "destroy", &location, {}, {});
}

}  // namespace weir::explore
