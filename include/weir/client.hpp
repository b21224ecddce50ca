// SPDX-License-Identifier: Apache-2.0
#pragma once
// The other side of server.hpp: tensors of another process, by name.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/names.hpp"
#include "weir/tensor.hpp"

namespace weir::ipc {

/// A stream of news about names. Has a connection of its own. Thread-safe, but each News goes to one caller.
class WEIR_API Subscription {
 public:
  Subscription(Subscription&& other) noexcept;             ///< take over the connection of `other`
  Subscription& operator=(Subscription&& other) noexcept;  ///< end this one, and take over the connection of `other`
  ~Subscription();                                         ///< end the subscription

  /// Return the next change, in the order in which the server made them. A subscriber that does not ask is told once
  /// that it missed changes, and then only of later ones. Throws timed_out, peer_gone, corrupt_descriptor.
  [[nodiscard]] News next(std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});

 private:
  friend class Client;
  struct State;
  explicit Subscription(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// A connection to a Server. Negative time limits mean none. Thread-safe: one call at a time speaks to the server, and
/// the others wait within their time limits. A moved-from client can only be assigned to and destroyed.
class WEIR_API Client {
 public:
  /// Connect to the server at `path`. Throws peer_gone when nobody serves there, permission_denied, timed_out,
  /// incompatible for a server of another version, and the error of the operating system.
  explicit Client(const std::string& path, std::chrono::milliseconds timeout = std::chrono::milliseconds{5000});
  Client(Client&& other) noexcept;             ///< take over the connection of `other`
  Client& operator=(Client&& other) noexcept;  ///< close this client, and take over the connection of `other`
  ~Client();                                   ///< close the client

  /// Return the names that match `pattern`, in the order of their bytes. A pattern is a name, or the beginning of names
  /// and a `*`. Names that change meanwhile may be listed or not. Throws invalid_argument for a bad pattern, timed_out,
  /// peer_gone, corrupt_descriptor, closed, and unsupported in a forked child.
  [[nodiscard]] std::vector<Listing> list(std::string_view pattern = "*",
                                          std::chrono::milliseconds timeout = std::chrono::milliseconds{5000});

  /// Return the tensor of that name: the server's memory, usable on `stream` at once. It is opened on the device of
  /// `stream` if that device can open it. It stays valid when the name is withdrawn or published anew, when this client
  /// is closed, and when the server dies, as the buffers of a Channel do. Throws invalid_argument when there is no such
  /// name; permission_denied when this client holds as many tensors as it may; timed_out; peer_gone;
  /// corrupt_descriptor; and what ipc::open throws for memory that cannot be opened here.
  [[nodiscard]] Tensor get(std::string_view name, const Stream& stream,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds{5000});

  /// Hear of all changes from now on to names that match `pattern`, as for list(). To miss nothing, subscribe first and
  /// list afterwards. Throws what the constructor throws, invalid_argument for a bad pattern, closed, and unsupported
  /// in a forked child.
  [[nodiscard]] Subscription subscribe(std::string_view pattern = "*",
                                       std::chrono::milliseconds timeout = std::chrono::milliseconds{5000}) const;

  /// Return who is connected to the server, and what each holds. Throws what list() throws.
  [[nodiscard]] std::vector<Guest> guests(std::chrono::milliseconds timeout = std::chrono::milliseconds{5000});

  /// Ask nothing any more. Tensors that this client got stay valid until they are closed. A call that waits in another
  /// thread throws peer_gone; every later call throws closed.
  void close() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::ipc
