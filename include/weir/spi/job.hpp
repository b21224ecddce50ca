// SPDX-License-Identifier: Apache-2.0
#pragma once
// Something that a thread of the library does soon. Handing it over asks for no memory.

namespace weir::spi {

struct Job {
  /// Called once on that thread, with the job out of its list: it may be handed over again, or end.
  void (*run)(Job& self) noexcept = nullptr;
  Job* next_job = nullptr;
};

}  // namespace weir::spi
