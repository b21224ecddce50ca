// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job is something that a thread of the library does soon. Handing one over takes no memory.

namespace weir::spi {

/// Base of an object that has one thing to do on a thread of the library.
struct Job {
  /// Called once on that thread, after the job has left the thread's list: the job may then be handed over again, or
  /// destroyed.
  void (*run)(Job& self) noexcept = nullptr;
  Job* next_job = nullptr;  ///< in the list of that thread
};

}  // namespace weir::spi
