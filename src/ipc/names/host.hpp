// SPDX-License-Identifier: Apache-2.0
#pragma once
// The thread of a server, and the sockets that it serves.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "ipc/channel/deadline.hpp"
#include "ipc/file_set.hpp"
#include "ipc/names/address.hpp"
#include "ipc/names/directory.hpp"
#include "ipc/names/ledger.hpp"
#include "ipc/names/visitor.hpp"
#include "weir/server.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail::names {

/// Serves until it ends. Everything but ring() belongs to the thread.
class Host {
 public:
  Host(const std::string& path, const ipc::ServerOptions& options, const Directory& directory, Ledger& ledger);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  /// End the thread and the connections. Waits for what the thread does at the moment, and for no client.
  ~Host();
  /// Return whether this is the thread that serves. It calls the failure sink, which may end the server or the process.
  [[nodiscard]] bool is_here() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }
  /// For the thread that serves: serve nobody any more once the thread comes back, if it does. This object and what it
  /// refers to stay for ever.
  void leave_to_thread() noexcept;
  /// There are news.
  void ring() noexcept;

 private:
  using Visitors = std::map<int, std::unique_ptr<Visitor>>;
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept;
  void start();
  void run() noexcept;
  [[nodiscard]] int milliseconds_to_wait() const noexcept;
  void answer(int file, std::uint32_t events) noexcept;
  void accept_some() noexcept;
  void admit(ConnectedSocket socket);
  [[nodiscard]] bool may_connect(std::uint32_t user) const noexcept;
  void end_silent() noexcept;
  Visitors::iterator end(Visitors::iterator at) noexcept;
  void watch_listener(bool wanted) noexcept;
  template <class Which>
  void let_send(const Which& which) noexcept;

  const ipc::ServerOptions options_;
  const std::uint32_t own_user_;
  const Directory& directory_;
  Ledger& ledger_;
  Listener listener_;
  FileSet files_;
  Visitors visitors_;  // by socket
  bool accepts_ = true;
  channel::Clock::time_point accepts_again_{};  // after there was no file left for a client
  std::atomic<bool> ends_{false};
  std::thread thread_;
  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::detail::names
