// SPDX-License-Identifier: Apache-2.0
#pragma once
// A thread of the library that waits for files of one sort: for the ends of leases (leases.cpp), or for what peers say
// over channels (channel/watcher.cpp).

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>

#include "ipc/file_set.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// The thread and its two files exist while there is something to wait for, and a while longer. There is one object for
/// each sort of files, and it never ends. What derived classes keep stands under the same lock.
class Attendant {
 public:
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;
  /// Take part in a fork. The child does not have the thread; it starts one when it needs one.
  void fork(spi::ForkMoment moment) noexcept;

 protected:
  using Lock = std::unique_lock<std::mutex>;
  struct Texts {
    const char* purpose;    ///< in whose name calls fail, like "lease"
    const char* thread;     ///< its name
    const char* no_thread;  ///< what is missing if it cannot be started
    const char* wait;       ///< the call of the kernel that it waits in, with the purpose
    const char* lost;       ///< what follows if the kernel does not let it wait
  };

  explicit Attendant(const Texts& texts) noexcept : texts_(texts) {}
  ~Attendant() = default;

  // For callers that have the lock.

  /// Start the thread unless it is there. Throws what keeps it from that.
  void need_thread();
  /// Return whether the thread is there, and is another one.
  [[nodiscard]] bool is_elsewhere() const noexcept;
  /// Have the thread look at everything that was ready before this call, and wait until it has. The thread must be
  /// there and be another one. Return false if that is impossible.
  bool await_round(Lock& lock);
  /// Return whether the thread does not sleep, so that it looks for what is due before it sleeps again.
  [[nodiscard]] bool is_busy() const noexcept { return busy_; }
  [[nodiscard]] const FileSet& files() const noexcept { return files_; }

  // What the thread asks and does, with the lock.

  /// Return whether there is nothing to wait for.
  [[nodiscard]] virtual bool is_idle() const noexcept = 0;
  /// Return whether there is something to do for which no file stands.
  [[nodiscard]] virtual bool is_due() const noexcept { return false; }
  /// Return whether something is to be done again after a pause.
  [[nodiscard]] virtual bool is_late() const noexcept { return false; }
  /// Attend to the files whose keys are in `ready`, to what is due, and if `round` is true to other files that may be
  /// ready. May release the lock meanwhile; the work done then may call fork(), and where fork_generation has
  /// changed, this function returns at once.
  virtual void serve(std::span<const epoll_event> ready, bool round, Lock& lock) noexcept = 0;
  /// Return whether serve() attends in a round to every file, also to those that are not in `ready`.
  [[nodiscard]] virtual bool sees_all() const noexcept { return false; }
  /// This is the child of a fork, and what the object keeps is the parent's. Its end here must have no effect.
  virtual void leave_to_parent() noexcept = 0;
  /// The thread ends although there is something to wait for. May release the lock.
  virtual void give_up(Lock&) noexcept {}

  std::mutex mutex_;

 private:
  void run() noexcept;
  void end() noexcept;

  const Texts texts_;
  FileSet files_;  // exists while the thread does
  std::thread::id thread_;
  bool busy_ = false;
  std::condition_variable answered_;
  std::uint64_t asked_ = 0, answer_ = 0;  // rounds
};

}  // namespace weir::detail
