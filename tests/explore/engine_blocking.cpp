// SPDX-License-Identifier: Apache-2.0
// Operations that wait for other threads, barriers, threads and the time.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "engine.hpp"
#include "hash.hpp"

namespace weir::explore {
namespace {

// Told apart in the hashes of what happens.
constexpr std::uint64_t paused = 11, light = 12, no_barrier = 13, drained = 14, timed_out = 15, began = 16, forked = 17,
                        forked_child = 18;

}  // namespace

// ---- mutexes and conditions -----------------------------------------------------------------------------------------

void Engine::lock(MutexState& mutex, Where where) {
  Thread& me = *current_;
  if (touch(mutex.location)) mutex.holder = 0;  // a global one may be left by a run that failed
  if (mutex.holder == index(me) + 1) {
    fail(Fault::deadlock, "T" + std::to_string(index(me)) + " locks " + mutex.location.text() + ", which it holds");
  }
  point(Act::lock, mutex.location, where, &mutex);
  drain(me);
  happen_write(me, mutex.location);
  changed(mutex.location);
  me.clock.join(mutex.location.released);
  mutex.holder = static_cast<std::uint8_t>(index(me) + 1);
  if (traced_) say(me, "lock", &mutex.location, {}, where);
}

bool Engine::try_lock(MutexState& mutex, Where where) {
  point(Act::modify, mutex.location, where);
  Thread& me = *current_;
  drain(me);
  const bool taken = mutex.holder == 0;
  if (taken) {
    happen_write(me, mutex.location);
    changed(mutex.location);
    me.clock.join(mutex.location.released);
    mutex.holder = static_cast<std::uint8_t>(index(me) + 1);
  } else {
    happen_read(me, mutex.location);
  }
  saw(me, mutex.location);
  if (traced_) say(me, "try_lock", &mutex.location, taken ? "-> true" : "-> false", where);
  return taken;
}

void Engine::unlock(MutexState& mutex, Where where) {
  point(Act::unlock, mutex.location, where);
  Thread& me = *current_;
  if (mutex.holder != index(me) + 1) {
    fail(Fault::check,
         "T" + std::to_string(index(me)) + " unlocks " + mutex.location.text() + ", which it does not hold");
  }
  drain(me);
  happen_write(me, mutex.location);
  changed(mutex.location);
  mutex.location.released = me.clock;
  mutex.holder = 0;
  saw(me, mutex.location);
  if (traced_) say(me, "unlock", &mutex.location, {}, where);
}

bool Engine::wait(ConditionState& condition, MutexState& mutex, const std::uint64_t* until, Where where) {
  const bool timed = until != nullptr;
  point(Act::wait, condition.location, where);
  Thread& me = *current_;
  if (mutex.holder != index(me) + 1) fail(Fault::check, "a wait without the lock");
  drain(me);
  happen_write(me, condition.location);
  happen_write(me, mutex.location);
  changed(mutex.location);
  mutex.location.released = me.clock;
  mutex.holder = 0;
  me.waits_for = &condition;
  me.notified = false;
  if (traced_) say(me, timed ? "wait, timed" : "wait", &condition.location, {}, where);
  point(timed ? Act::wake_or_time_out : Act::wake, condition.location, where);
  const bool notified = me.notified;
  me.waits_for = nullptr;
  happen(me, notified ? 0 : timed_out);
  happen_write(me, condition.location);
  if (!notified) {
    now_ = std::max(now_, *until);
    touch(time_);
    happen_write(me, time_);
  }
  if (traced_) say(me, notified ? "wakes" : "times out", &condition.location, {}, where);
  lock(mutex, where);
  return notified;
}

void Engine::notify(ConditionState& condition, bool all, Where where) {
  point(Act::notify, condition.location, where);
  Thread& me = *current_;
  happen_write(me, condition.location);
  std::array<Thread*, most_threads> waiting{};
  unsigned count = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (threads_[i].waits_for == &condition && !threads_[i].notified) waiting.at(count++) = &threads_[i];
  }
  if (traced_) {
    say(me, all ? "notify_all" : "notify_one", &condition.location, std::to_string(count) + " wait", where);
  }
  if (count == 0) return;
  const unsigned one = all ? 0 : outcome(count);
  happen(me, one);
  for (unsigned i = 0; i < count; ++i) {
    if (all || i == one) waiting.at(i)->notified = true;
  }
}

// ---- sections -------------------------------------------------------------------------------------------------------

void Engine::enter(SectionState& section, Where where) {
  point(Act::section, section.location, where);
  Thread& me = *current_;
  if (section.inside != 0) {
    fail(Fault::check, "two threads are inside " + section.location.text() + ": T" +
                           std::to_string(section.inside - 1) + " and T" + std::to_string(index(me)));
  }
  section.inside = static_cast<std::uint8_t>(index(me) + 1);
  happen_write(me, section.location);
  if (traced_) say(me, "enters", &section.location, {}, where);
}

void Engine::leave(SectionState& section, Where where) {
  point(Act::section, section.location, where);
  section.inside = 0;
  happen_write(*current_, section.location);
  if (traced_) say(*current_, "leaves", &section.location, {}, where);
}

// ---- pauses and barriers --------------------------------------------------------------------------------------------

void Engine::pause(Where where) {
  Thread& me = *current_;
  if (traced_) say(me, "pause", nullptr, {}, where);
  me.where = where;
  me.act = Act::pause;
  me.location = nullptr;
  yield();
  happen(me, paused);
  me.seen.clear();
  me.looked_at = 0;
}

// Where it comes between other threads' steps matters to heavy barriers only, which come at points. So it is none.
void Engine::light_barrier(Where where) {
  Thread& me = *current_;
  happen(me, light);
  me.clock.join(me.pending);
  me.light = me.clock;
  me.lit = me.buffer.size();
  if (traced_) say(me, "light barrier", nullptr, {}, where);
}

// Every other thread passes a full barrier at some moment of the call; here at the call's begin, which promises least.
// What a thread stored after its last light barrier is not reached: the compiler may do it later than it is written.
void Engine::heavy_barrier(Where where) {
  Thread& me = *current_;
  const auto stop_here = [&] {
    me.where = where;
    me.act = Act::heavy;
    me.location = nullptr;
    yield();
  };
  stop_here();
  if (traced_) say(me, "heavy barrier", nullptr, options_.heavy_barrier ? "" : "that does nothing", where);
  if (!options_.heavy_barrier) {
    happen(me, no_barrier);
    return;
  }
  drain(me);
  happen(me, sum_);  // depends on all that happened anywhere
  std::array<std::uint64_t, most_threads> until{};
  Clock reached;
  for (std::size_t i = 0; i < count_; ++i) {
    if (&threads_[i] == &me) continue;
    until.at(i) = threads_[i].gone + threads_[i].lit;
    reached.join(threads_[i].light);
    threads_[i].pending.join(me.clock);
  }
  for (std::size_t i = 0; i < count_; ++i) {
    while (threads_[i].gone < until.at(i)) {
      stop_here();
      if (threads_[i].gone < until.at(i)) flush(threads_[i]);
    }
    happen(me, mix(drained, threads_[i].flushed));
  }
  me.clock.join(reached);
}

// ---- forks
// -----------------------------------------------------------------------------------------------------------

// The child gets the memory of one moment. What it finds there that others did is in order: nothing races with threads
// that do not exist.
bool Engine::fork(Where where) {
  Thread& me = *current_;
  me.where = where;
  me.act = Act::fork;
  me.location = nullptr;
  yield();
  drain(me);
  const bool child = outcome(2) != 0;
  happen(me, mix(sum_, child ? forked_child : forked));
  if (traced_) say(me, "fork", nullptr, child ? "-> child" : "-> parent", where);
  if (!child) return false;
  in_child_ = true;
  for (std::size_t i = 0; i < count_; ++i) {
    if (&threads_[i] == &me) continue;
    me.clock.join(threads_[i].clock);
    stay_in_parent(threads_[i]);
  }
  return true;
}

// Its stack goes with the run, and is never unwound.
void Engine::stay_in_parent(Thread& thread) {
  if (!thread.over) thread.over = thread.stays_in_parent = true;
  thread.buffer.clear();
  thread.lit = 0;
  thread.buffered = 0;
  thread.waits_for = nullptr;
}

// ---- threads and the time -------------------------------------------------------------------------------------------

// They are numbered in the order in which they begin, so that order is part of the state.
std::uintptr_t Engine::begin_thread(void (*body)(void*), void* object) {
  Thread& me = *current_;
  if (count_ == most_threads) fail(Fault::unfinished, "the scene's threads start too many others");
  touch(begins_);
  happen_write(me, begins_);
  Thread& thread = threads_[count_++];
  take(thread);
  thread.started = body;
  thread.object = object;
  thread.clock.join(me.clock);
  thread.chain = mix(me.chain, began);
  if (traced_) say(me, "starts", nullptr, 'T' + std::to_string(index(thread)), {});
  return thread.system_id;
}

// It goes on when a wait times out, and never else.
std::uint64_t Engine::now() {
  touch(time_);
  happen_read(*current_, time_);
  return now_;
}

bool& Engine::flag(const void* key) {
  for (Flag& one : current_->flags) {
    if (!one.key) one.key = key;
    if (one.key == key) return one.set;
  }
  throw std::logic_error("explore: too many flags of threads");
}

}  // namespace weir::explore
