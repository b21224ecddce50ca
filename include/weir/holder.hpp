// SPDX-License-Identifier: Apache-2.0
#pragma once
// The process that keeps sets of tensors alive when their maker has ended. Programs use it through held_set.hpp, and
// most start it as `weir hold PATH`.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "weir/export.hpp"

namespace weir::ipc {

/// What a holder takes at most. What goes beyond a limit is refused, and the writer's error names the limit.
struct HolderOptions {
  std::size_t sets = 1024;                      ///< names with a committed set
  std::size_t tensors = std::size_t{1} << 20;   ///< of one set
  std::size_t bytes = std::size_t{256} << 20;   ///< of names and layouts, of all sets together
  /// Files of memory that are open, of all sets together. 0 = as many as the process may open, but for what the
  /// connections need.
  std::size_t files = 0;
  std::size_t connections = 256;  ///< of writers and readers; more are refused until one ends
  bool other_users = false;       ///< let processes of other users connect, and read, replace and remove sets
  /// For a process that connects and says nothing, and for a reader that takes nothing in the middle of a set: either
  /// is cut off. And for a writer that sends a part of a set and then nothing: that part is forgotten, and the writer
  /// sends all of the set at its commit. Above 0.
  std::chrono::milliseconds patience{5000};
};

/// What a holder has at a moment. What writers have sent and not committed counts, too.
struct HolderStats {
  std::size_t sets = 0;         ///< names with a committed set
  std::size_t bytes = 0;        ///< of names and layouts
  std::size_t files = 0;        ///< of memory
  std::size_t connections = 0;  ///< of writers and readers
};

/// Keeps named sets of tensors: the files of their memory, and bytes that say what lies where. It opens no memory, asks
/// no device and loads no GPU driver. It believes nothing: a client that breaks the protocol is cut off, and readers
/// check everything that they get. It waits for no client, and a client that dies, stops or lies disturbs no other. A
/// forked child has no part in the holder: run() and stats() throw unsupported there, and the rest has no effect.
class WEIR_API Holder {
 public:
  /// Listen on a Unix-domain socket at `path`, which only this user may connect to unless `options` say otherwise.
  /// Beside it, `path`.lock shows that the holder lives. A socket that a dead program left behind is replaced. Throws
  /// invalid_argument for a path that is too long or names something else than a socket, and for limits of 0
  /// other than `files`, and for a patience of 0; permission_denied when a holder serves the path already; and the
  /// system's error.
  explicit Holder(const std::string& path, const HolderOptions& options = {});
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  /// Remove the socket, and drop all sets.
  ~Holder();

  /// Serve until stop() is called. One thread at a time.
  void run();
  /// Let run() return, now or when it is next called. May be called on any thread, and by a signal handler.
  void stop() noexcept;
  [[nodiscard]] HolderStats stats() const;  ///< on any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::ipc
