// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a thread of the library does something that no call of a user asked for at this moment.

#include <utility>

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// While one exists, this thread is such a thread. It must not use an application's native stream: its owner may have
/// destroyed it.
class LibraryThread {
 public:
  LibraryThread() noexcept : before_(std::exchange(flag(), true)) {}
  ~LibraryThread() { flag() = before_; }
  LibraryThread(const LibraryThread&) = delete;
  LibraryThread& operator=(const LibraryThread&) = delete;

  [[nodiscard]] static bool here() noexcept { return flag(); }

 private:
  static bool& flag() noexcept { return sync::flag_of_thread<LibraryThread>(); }

  bool before_;
};

}  // namespace weir::detail
