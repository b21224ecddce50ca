// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the threads of a scene as fibers, one step at a time, on a memory with store buffers. Instrumented objects come
// here with each operation; tests do not.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "choices.hpp"
#include "fiber.hpp"
#include "location.hpp"
#include "options.hpp"
#include "scene.hpp"
#include "schedule.hpp"

namespace weir::explore {

struct MutexState {
  Location location;
  std::uint8_t holder = 0;  ///< number of the thread plus one; 0: nobody
};

struct ConditionState {
  Location location;
};

struct SectionState {
  Location location;
  std::uint8_t inside = 0;  ///< number of the thread plus one; 0: nobody
};

class Engine {
 public:
  Engine(const Options& options, const std::function<void(Scene&)>& story);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ---- for the search

  /// Run the next schedule. False when it failed.
  bool run();
  /// Set up the schedule after that. False when there is none.
  bool advance() noexcept { return choices_.advance(); }
  /// Run the last schedule again and keep a trace.
  bool run_again();
  /// Run one that was written down, and keep a trace.
  bool replay(const Schedule& schedule);

  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] const std::string& trace() const noexcept { return trace_; }
  [[nodiscard]] const Schedule& schedule() const noexcept { return decided_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return all_steps_; }
  [[nodiscard]] std::size_t states() const noexcept { return choices_.states(); }
  /// Whether the run only does again what another one did from some state on.
  [[nodiscard]] bool is_settled() const noexcept { return choices_.is_settled(); }
  [[nodiscard]] unsigned preemptions() const noexcept { return preempted_; }

  // ---- for instrumented objects, in threads of the scene: engine_memory.cpp

  // Values are the bytes of what is in `memory`, at most eight.
  std::uint64_t load(Location& location, const void* memory, std::size_t bytes, std::memory_order order, Where where);
  void store(Location& location, void* memory, std::size_t bytes, std::uint64_t value, std::memory_order order,
             Where where);
  /// A read-modify-write, around what reads and writes the memory.
  void begin_modify(Location& location, Where where);
  /// Whether a weak compare-exchange that could succeed does not.
  bool fails_for_no_reason();
  void end_modify(Location& location, std::memory_order order, std::uint64_t before, std::uint64_t after, Where where);
  void end_failed_modify(Location& location, std::memory_order order, std::uint64_t seen, Where where);
  void read_plain(Location& location);
  void write_plain(Location& location);
  void destroy(Location& location);

  // ---- and engine_blocking.cpp

  void lock(MutexState& mutex, Where where);
  bool try_lock(MutexState& mutex, Where where);
  void unlock(MutexState& mutex, Where where);
  /// False when it timed out, as it may whenever it waits, unless `until` is null.
  bool wait(ConditionState& condition, MutexState& mutex, const std::uint64_t* until, Where where);
  void notify(ConditionState& condition, bool all, Where where);
  void enter(SectionState& section, Where where);
  void leave(SectionState& section, Where where);
  void pause(Where where);
  void light_barrier(Where where);
  void heavy_barrier(Where where);
  /// The process forks here. Tries both: returns false in the parent, and true in the child, where no other thread goes
  /// on.
  bool fork(Where where);
  /// Another thread of the scene, which runs body(object). Returns what the system calls it.
  std::uintptr_t begin_thread(void (*body)(void*), void* object);
  std::uint64_t now();

  [[nodiscard]] bool has_heavy_barrier() const noexcept { return options_.heavy_barrier; }
  [[nodiscard]] std::size_t this_thread() const noexcept { return index(*current_); }
  /// What the system calls the thread that runs.
  std::uintptr_t& system_id() noexcept { return current_->system_id; }
  /// A flag that each thread has for itself.
  bool& flag(const void* key);
  /// End the run with a fault. Returns only outside of threads.
  void fail(Fault fault, std::string message);

 private:
  enum class Act : std::uint8_t {
    begin,
    load,
    store,
    modify,
    lock,
    unlock,
    wait,
    wake,
    wake_or_time_out,
    notify,
    section,
    heavy,
    pause,
    fork
  };
  struct Buffered {
    Location* location;
    void* memory;
    std::uint64_t value;
    std::uint8_t bytes;
    bool release;
    Clock clock;
    std::uint64_t hash;
  };
  struct Seen {
    std::uint32_t id, version;
  };
  /// A value that a location had.
  struct Stored {
    std::uint64_t value;
    std::uint64_t hash;
    Clock released;
    std::uint32_t time;   // of its writer
    std::uint8_t writer;  // `most_threads`: nobody
  };
  struct History {
    static constexpr std::uint32_t kept = 4;
    std::uint32_t version = 0;  // how often the value changed
    std::uint32_t count = 0;    // of values so far
    std::array<Stored, kept> last{};
    std::array<std::uint32_t, most_threads> seen{};  // number of the newest one that a thread saw
  };
  struct Flag {
    const void* key = nullptr;
    bool set = false;
  };
  struct Thread {
    std::uint8_t number = 0;
    std::unique_ptr<Fiber> fiber;
    const std::function<void()>* body = nullptr;  // or, when another thread started it:
    void (*started)(void*) = nullptr;
    void* object = nullptr;
    std::uintptr_t system_id = 0;
    std::array<Flag, 4> flags{};
    bool over = true;
    bool stays_in_parent = false;  // the run goes on in a child, without it
    // What it does next.
    Act act{};
    const Location* location = nullptr;
    const MutexState* mutex = nullptr;
    Where where;

    Clock clock;
    Clock light;                  // at its last light barrier
    Clock pending;                // what its next light barrier learns from heavy ones
    std::uint64_t chain = 0;      // hash of all that it did
    std::uint64_t flushed = 0;    // of all that its buffer did
    List<Buffered> buffer;        // oldest first
    std::size_t lit = 0;          // of those, stored before its last light barrier
    std::uint64_t gone = 0;       // stores that left the buffer
    List<Seen> seen;              // read since its last pause
    std::uint64_t buffered = 0;   // bits of the locations of `buffer`
    std::uint64_t looked_at = 0;  // and of `seen`
    const ConditionState* waits_for = nullptr;
    bool notified = false;
  };
  struct Candidate {
    Decision decision;
    bool costs;
  };

  // engine.cpp
  bool run_once();
  void reset();
  void take_threads(const Scene& scene);
  static void take(Thread& thread);
  [[noreturn]] static void live() noexcept;
  void perform() noexcept;
  Thread* next_to_run();
  void point(Act act, Location& location, Where where, const MutexState* mutex = nullptr);
  void yield();
  std::optional<Decision> decide();  // none: every thread is over, or the run has failed outside of threads
  bool gather();
  [[nodiscard]] bool can_go_on(const Thread& thread) const noexcept;
  [[nodiscard]] bool would_notice(const Thread& owner) const noexcept;
  [[nodiscard]] bool all_over() const noexcept;
  std::optional<unsigned> take_searched(bool going);
  std::optional<unsigned> take_recorded();
  unsigned outcome(unsigned count);
  void note(Decision decision);
  static void stay_in_parent(Thread& thread);
  static std::uint32_t number() noexcept;  // of the run

  // engine_memory.cpp
  bool touch(Location& location);
  std::uint64_t happen(Thread& thread, std::uint64_t depends_on);
  void happen_read(Thread& thread, Location& location);
  void happen_write(Thread& thread, Location& location);
  void changed(const Location& location) noexcept;
  void saw(Thread& thread, const Location& location, bool old = false);
  void flush(Thread& thread);
  void drain(Thread& thread);
  static void mask_buffer(Thread& thread) noexcept;
  // Different locations may have the same.
  static std::uint64_t bit(const Location& location) noexcept { return std::uint64_t{1} << (location.id % 64); }
  void begin_history(const Location& location, std::uint64_t value);
  void remember(const Location& location, const Thread& writer, std::uint32_t time, std::uint64_t value);
  std::uint32_t choose_age(const Thread& reader, const Location& location);
  static const Buffered* newest(const Thread& thread, const Location& location) noexcept;
  void access(Thread& thread, Location& location) noexcept;

  // trace.cpp
  void say(const Thread& thread, const char* what, const Location* location, std::string detail, Where where);
  std::string what_each_waits_for() const;
  static std::string value_text(std::uint64_t value);
  static const char* to_string(std::memory_order order) noexcept;

  static std::size_t index(const Thread& thread) noexcept { return thread.number; }

  const Options options_;
  const std::function<void(Scene&)>& story_;
  Choices choices_;
  std::array<Thread, most_threads> threads_;
  std::size_t count_ = 0;
  Fiber main_;

  // Of one run.
  Thread* current_ = nullptr;  // the one that took the last step
  unsigned preempted_ = 0;
  unsigned old_reads_ = 0;
  unsigned weak_failures_ = 0;
  bool in_child_ = false;
  std::size_t steps_ = 0;
  std::uint64_t sum_ = 0;    // of the hashes of all that happened: the state
  List<History> histories_;  // by location
  std::uint64_t now_ = 0;    // nanoseconds
  Location time_, begins_;
  std::array<Candidate, 3 * most_threads> candidates_{};
  unsigned candidate_count_ = 0;
  Fault fault_ = Fault::none;
  std::string message_;

  // Of a run with a trace.
  bool traced_ = false;
  const Schedule* replayed_ = nullptr;
  std::size_t replayed_to_ = 0;
  Schedule decided_;
  std::string trace_;

  std::uint64_t all_steps_ = 0;
};

/// The run that is under way in this program, and whether one of its threads is running.
inline Engine* present = nullptr;
inline Engine* running = nullptr;

}  // namespace weir::explore
