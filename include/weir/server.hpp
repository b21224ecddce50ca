// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors that other processes get by name. Read channel.hpp first, which says what lending means; next, client.hpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/access.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/names.hpp"

namespace weir::ipc {

/// Options of a server. Each is a bound on what strangers can make it do.
struct ServerOptions {
  /// User ids whose processes may connect. Empty: only the user that this process runs as.
  std::vector<std::uint32_t> users = {};
  /// Connections, and clients that have left and still hold something; 1 … 4096. For each of `users` that has no client
  /// a place is kept, so that there have to be as many, and more if clients subscribe: that takes a second connection.
  std::size_t most_clients = 64;
  std::size_t most_names = 1024;  ///< 1 … 65536
  std::size_t most_name_bytes = 128;  ///< 1 … 255
  std::size_t most_loans = 256;       ///< tensors that one client may hold at a time; 1 … 65536
  std::size_t remembered = 256;  ///< changes that a slow subscriber may be behind before it misses some; 1 … 65536
  std::chrono::milliseconds patience{5000};  ///< for a process that connects and says nothing; above 0
};

/// What a server has at a moment.
struct ServerStats {
  std::size_t names = 0;            ///< that are published
  std::vector<Guest> clients = {};  ///< in the order of arrival
};

/// Publishes tensors under names, over a Unix-domain socket at a path. A client gets the tensor itself, not a copy, and
/// holds it by the rules of a Channel: **its connection is the lease**. The client may also write the memory, unless it
/// is published with Access::read_only.
///
/// One thread serves all clients. No client holds up another one, or a call of this class: a client that is slow,
/// stopped or hostile only keeps what it was lent, within the bounds of the options. Processes in different containers
/// can share a server if they share the folder of the socket.
///
/// Thread-safe. A forked child has no part in the server: its calls throw unsupported. A moved-from server can only be
/// assigned to and destroyed.
class WEIR_API Server {
 public:
  /// Listen at `path`, of at most 107 bytes. Its folder and the slash have at most 98 of them, because the socket is
  /// made there under another name first. The socket of a server that died is replaced, by one server at a
  /// time: `path`.lock, which only this user can open and which stays there, is for that. The socket's mode lets in
  /// this user, or everybody if the options name other users, and the server asks the kernel which user each client is.
  /// Throws invalid_argument for bad options, and the error of the operating system: address in use when a server is
  /// alive at the path, or starts there at the same time.
  explicit Server(const std::string& path, const ServerOptions& options = {});
  Server(Server&& other) noexcept;             ///< take over what `other` serves
  Server& operator=(Server&& other) noexcept;  ///< close this server, and take over what `other` serves
  ~Server();                                   ///< close the server

  /// Publish `tensor`, in place of an earlier one of that name, all at once. The earlier one stays valid for those who
  /// hold it. A client's stream waits for everything that was put on `stream` before this call, and for what is on the
  /// buffer's allocation stream and recorded as its uses when the client gets it. What an application puts on a
  /// borrowed allocation stream itself counts if it was there before this call. The tensor may be closed right
  /// afterwards. Return its version. Throws invalid_argument for a name that is empty, too long, not UTF-8, or has
  /// control characters or `*`, for more than 64 dimensions, and when there are too many names; unsupported for memory
  /// that was not made exportable, and for Access::read_only where the backend cannot lend memory for reading alone
  /// (Vulkan); closed.
  std::uint64_t publish(std::string_view name, const Tensor& tensor, const Stream& stream,
                        Access access = Access::read_write);
  /// Publish all bytes of `buffer`, as a tensor of bytes.
  std::uint64_t publish(std::string_view name, const Buffer& buffer, const Stream& stream,
                        Access access = Access::read_write);
  /// Take the name away. Those who hold the tensor keep it. Return whether there was one.
  bool withdraw(std::string_view name);

  [[nodiscard]] std::vector<Listing> names() const;  ///< in the order of their bytes
  [[nodiscard]] ServerStats stats() const;           ///< who is connected, and what each has
  [[nodiscard]] const std::string& path() const;     ///< as the constructor got it

  /// Serve nobody any more, and remove the socket. What clients hold stays valid until they give it back. Every other
  /// call throws closed afterwards. May be called by a failure sink on the thread that serves, also when that ends the
  /// process: then what the server kept is leaked.
  void close() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::ipc
