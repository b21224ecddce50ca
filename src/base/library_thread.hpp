// SPDX-License-Identifier: Apache-2.0
#pragma once
// Marks a thread while it does work of the library that no call of a user asks for at that moment.

#include <utility>

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// While an object of this class exists, its thread counts as a thread of the library. Such a thread must not use an
/// application's native stream, because the application may have destroyed that stream.
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
