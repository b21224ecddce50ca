// SPDX-License-Identifier: Apache-2.0
// Runs, and who takes the next step.
#include "engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>

#include "hash.hpp"
#include "heap.hpp"

namespace weir::explore {
namespace {

constexpr auto led_elsewhere = "the same steps led elsewhere than before";
std::uint32_t last_run = 0;

struct Present {
  explicit Present(Engine& engine) noexcept { present = &engine; }
  ~Present() { present = nullptr; }
  Present(const Present&) = delete;
  Present& operator=(const Present&) = delete;
};

/// Fibers that no engine uses at the moment.
std::vector<std::unique_ptr<Fiber>>& idle_fibers() {
  static auto& list = *new std::vector<std::unique_ptr<Fiber>>;
  return list;
}

/// Fibers that a fault stopped. What their stacks hold is never unwound, because that would run the code that failed.
std::vector<std::unique_ptr<Fiber>>& stopped_fibers() {
  static auto& list = *new std::vector<std::unique_ptr<Fiber>>;
  return list;
}

}  // namespace

Engine::Engine(const Options& options, const std::function<void(Scene&)>& story)
    : options_(options), story_(story), choices_(options.merge) {
  if (options.preemptions > Visited::most_left) throw std::invalid_argument("explore: at most 14 preemptions");
  for (std::size_t i = 0; i < most_threads; ++i) threads_.at(i).number = static_cast<std::uint8_t>(i);
}

Engine::~Engine() {
  for (Thread& thread : threads_) {
    if (thread.fiber) idle_fibers().push_back(std::move(thread.fiber));
  }
}

bool Engine::run() {
  choices_.begin();
  return run_once();
}

bool Engine::run_again() {
  choices_.begin(true);
  traced_ = true;
  const bool passed = run_once();
  traced_ = false;
  return passed;
}

bool Engine::replay(const Schedule& schedule) {
  replayed_ = &schedule;
  const bool passed = run_again();
  replayed_ = nullptr;
  return passed;
}

bool Engine::run_once() {
  reset();
  {
    const Present here(*this);
    const TrackedHeap heap;
    auto scene = std::make_unique<Scene>();
    story_(*scene);
    take_threads(*scene);
    if (Thread* const first = next_to_run()) {
      current_ = first;
      running = this;
      main_.switch_to(*first->fiber);
      running = nullptr;
    }
    if (!replayed_ && fault_ == Fault::none && !choices_.followed()) fail(Fault::unstable, led_elsewhere);
    if (fault_ == Fault::none) scene->check();
    if (fault_ == Fault::none) {
      scene.reset();
    } else {
      (void)scene.release();  // its destructors may rely on what the fault broke
    }
    if (fault_ == Fault::none && options_.leaks && !in_child_ && TrackedHeap::left() > 0) {
      fail(Fault::leak, std::to_string(TrackedHeap::left()) + " blocks of memory are left");
    }
  }
  for (Thread& thread : threads_) {
    if (thread.stays_in_parent) thread.fiber.reset();
    const bool stopped = !thread.over || (fault_ != Fault::none && &thread == current_);
    if (thread.fiber && stopped) stopped_fibers().push_back(std::move(thread.fiber));
  }
  return fault_ == Fault::none;
}

void Engine::reset() {
  ++last_run;
  current_ = nullptr;
  preempted_ = 0;
  now_ = 0;
  old_reads_ = 0;
  weak_failures_ = 0;
  in_child_ = false;
  steps_ = 0;
  sum_ = 0;
  histories_.clear();
  fault_ = Fault::none;
  message_.clear();
  decided_.clear();
  trace_.clear();
  replayed_to_ = 0;
  for (Thread& thread : threads_) {
    thread.stays_in_parent = false;
    if (thread.fiber) continue;
    auto& idle = idle_fibers();
    if (idle.empty()) idle.push_back(std::make_unique<Fiber>(&Engine::live));
    thread.fiber = std::move(idle.back());
    idle.pop_back();
  }
}

std::uint32_t Engine::number() noexcept { return last_run; }

void Engine::take_threads(const Scene& scene) {
  const auto& bodies = scene.bodies();
  count_ = bodies.size();
  if (count_ > most_threads) throw std::logic_error("explore: a scene has at most five threads");
  for (std::size_t i = 0; i < count_; ++i) {
    take(threads_[i]);
    threads_[i].body = &bodies[i];
  }
  for (std::size_t i = count_; i < most_threads; ++i) threads_[i].over = true;
}

void Engine::take(Thread& thread) {
  thread.body = nullptr;
  thread.started = nullptr;
  thread.over = false;
  thread.act = Act::begin;
  thread.location = nullptr;
  thread.mutex = nullptr;
  thread.where = {};
  thread.system_id = 0x1000 * (index(thread) + 1);
  thread.flags = {};
  thread.clock = thread.light = thread.pending = {};
  thread.chain = mix(index(thread) + 1, 1);
  thread.flushed = mix(index(thread) + 1, 2);
  thread.buffer.clear();
  thread.lit = 0;
  thread.gone = 0;
  thread.seen.clear();
  thread.buffered = thread.looked_at = 0;
  thread.waits_for = nullptr;
  thread.notified = false;
}

// What every fiber runs. A body that a fault stops does not come back.
void Engine::live() noexcept {
  for (;;) running->perform();
}

void Engine::perform() noexcept {
  Thread& me = *current_;
  try {
    me.started ? me.started(me.object) : (*me.body)();
  } catch (const std::exception& error) {
    fail(Fault::exception, std::string("a thread threw: ") + error.what());
  } catch (...) {
    fail(Fault::exception, "a thread threw an unknown exception");
  }
  me.over = true;
  if (traced_) say(me, "ends", nullptr, {}, {});
  Thread* const next = next_to_run();
  current_ = next;
  me.fiber->switch_to(next ? *next->fiber : main_);  // comes back in another run
}

Engine::Thread* Engine::next_to_run() {
  while (const auto decision = decide()) {
    Thread& thread = threads_[decision->which];
    if (decision->kind != Decision::flush) return &thread;
    flush(thread);
  }
  return nullptr;
}

void Engine::point(Act act, Location& location, Where where, const MutexState* mutex) {
  Thread& me = *current_;
  me.where = where;
  touch(location);
  me.act = act;
  me.location = &location;
  me.mutex = mutex;
  yield();
  touch(location);  // others may have destroyed it meanwhile
}

void Engine::yield() {
  Thread& me = *current_;
  while (const auto decision = decide()) {
    Thread& next = threads_[decision->which];
    if (decision->kind == Decision::flush) {
      flush(next);
      continue;
    }
    if (&next == &me) return;
    current_ = &next;
    me.fiber->switch_to(*next.fiber);
    return;
  }
  std::abort();  // a thread that waits for its turn is not over, and a fault does not come back
}

std::optional<Decision> Engine::decide() {
  ++all_steps_;
  if (++steps_ > options_.steps) {
    fail(Fault::endless, "more than " + std::to_string(options_.steps) +
                             " steps; does a loop wait for another thread without sync::pause()?");
    return {};
  }
  const bool going = gather();
  if (candidate_count_ == 0) {
    if (!all_over()) fail(Fault::deadlock, "every thread waits: " + what_each_waits_for());
    return {};
  }
  const auto at = replayed_ ? take_recorded() : take_searched(going);
  if (!at) return {};
  const Candidate taken = candidates_[*at];
  if (taken.costs) ++preempted_;
  note(taken.decision);
  return taken.decision;
}

// Those that cost a preemption come last. Returns whether the thread that took the last step can go on.
bool Engine::gather() {
  candidate_count_ = 0;
  std::array<std::uint8_t, most_threads> pausing{};
  std::size_t pausing_count = 0;
  const auto add = [this](Decision::Kind kind, std::size_t which, bool costs) {
    candidates_.at(candidate_count_++) = {{kind, static_cast<std::uint8_t>(which)}, costs};
  };

  const bool going = current_ && can_go_on(*current_);
  if (going) add(Decision::step, index(*current_), false);
  const unsigned others = candidate_count_;
  std::size_t other = current_ ? index(*current_) + 1 : 0;
  for (std::size_t i = 0; i < count_; ++i, ++other) {
    if (other >= count_) other = 0;
    const Thread& thread = threads_.at(other);
    if (&thread == current_ || !can_go_on(thread)) continue;
    if (thread.act == Act::pause) {
      pausing.at(pausing_count++) = thread.number;
    } else {
      add(Decision::step, other, going);
    }
  }
  // Two threads that pause could wake each other for ever, so one that does not comes first.
  const bool busy = candidate_count_ != 0;
  for (std::size_t i = 0; i < pausing_count; ++i) add(Decision::step, pausing.at(i), busy);

  const bool nobody = candidate_count_ == 0;
  const unsigned steps = candidate_count_;
  for (std::size_t i = 0; i < count_; ++i) {
    if (threads_.at(i).buffer.empty()) continue;
    if (nobody || !options_.merge || would_notice(threads_.at(i))) add(Decision::flush, i, false);
  }
  if (candidate_count_ != steps) {
    const auto begin = candidates_.begin() + others;
    std::stable_partition(begin, candidates_.begin() + candidate_count_,
                          [](const Candidate& one) { return !one.costs; });
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const Thread& thread = threads_.at(i);
    if (thread.act == Act::wake_or_time_out && !thread.over && !thread.notified) add(Decision::step, i, !nobody);
  }
  return going;
}

bool Engine::can_go_on(const Thread& thread) const noexcept {
  if (thread.over) return false;
  switch (thread.act) {
    case Act::lock: return !thread.location->is_alive() || thread.mutex->holder == 0;
    case Act::wake:
    case Act::wake_or_time_out: return thread.notified;
    case Act::pause:
      // Until what it has looked at is different, it would only see the same again.
      for (const Seen& one : thread.seen) {
        if (histories_[one.id].version != one.version) return true;
      }
      return thread.seen.empty();
    default: return true;
  }
}

// Whether a store of `owner` that leaves its buffer now could make a difference to the next step of anybody. A store
// that nobody would notice may as well leave later: the search loses nothing.
bool Engine::would_notice(const Thread& owner) const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const Thread& other = threads_[i];
    if (&other == &owner) continue;
    auto notices = other.buffered;
    if (!other.over) {
      if (other.act == Act::fork) return true;  // what is still in a buffer does not come to the child
      if (other.act == Act::load || other.act == Act::modify) notices |= bit(*other.location);
      if (other.act == Act::pause) notices |= other.looked_at;
    }
    if ((notices & owner.buffered) != 0) return true;
  }
  return false;
}

bool Engine::all_over() const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    if (!threads_[i].over) return false;
  }
  return true;
}

std::optional<unsigned> Engine::take_searched(bool going) {
  const unsigned left = options_.preemptions - preempted_;  // old values count as well
  auto count = candidate_count_;
  if (left == 0) {
    while (candidates_[count - 1].costs) --count;
  }
  const auto state = mix(sum_, going ? index(*current_) + 1 : 0);
  const unsigned at = choices_.pick(count, state, left);
  if (at != count) return at;
  fail(Fault::unstable, led_elsewhere);
  return {};
}

std::optional<unsigned> Engine::take_recorded() {
  if (replayed_to_ == replayed_->size()) return 0;
  const Decision wanted = (*replayed_)[replayed_to_++];
  std::string possible;
  for (unsigned i = 0; i < candidate_count_; ++i) {
    if (candidates_.at(i).decision == wanted) return i;
    possible += ' ' + explore::to_text({candidates_.at(i).decision});
  }
  fail(Fault::unstable, "the schedule does not fit: its decision " + std::to_string(replayed_to_) + " is " +
                            explore::to_text({wanted}) + ", and possible are:" + possible);
  return {};
}

// The first outcome is not written down.
unsigned Engine::outcome(unsigned count) {
  if (count == 1) return 0;
  unsigned at = 0;
  if (!replayed_) {
    at = choices_.pick(count, sum_);
  } else if (replayed_to_ < replayed_->size() && (*replayed_)[replayed_to_].kind == Decision::outcome) {
    at = std::min<unsigned>((*replayed_)[replayed_to_++].which, count);
  }
  if (at == count) {
    fail(Fault::unstable, replayed_ ? "the schedule does not fit: an outcome is not possible" : led_elsewhere);
  }
  if (at != 0) note({Decision::outcome, static_cast<std::uint8_t>(at)});
  return at;
}

void Engine::note(Decision decision) {
  if (!traced_) return;
  const UntrackedHeap outside;
  decided_.push_back(decision);
}

void Engine::fail(Fault fault, std::string message) {
  if (fault_ == Fault::none) {
    fault_ = fault;
    message_ = std::move(message);
    if (traced_ && current_) say(*current_, "FAILS", nullptr, message_, current_->where);
  }
  if (running != this) return;
  current_->fiber->switch_to(main_);
  std::abort();
}

}  // namespace weir::explore
