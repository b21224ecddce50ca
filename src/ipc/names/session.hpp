// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's half of a connection: packets of one client in, packets for it out. Knows neither files nor clocks.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ipc/names/directory.hpp"
#include "ipc/names/ledger.hpp"
#include "ipc/names/messages.hpp"

namespace weir::detail::names {

/// What a client is told, and what has to be done for it first.
struct Reply {
  Packet packet;
  bool opens_channel = false;  ///< the packet takes the client's end of a new channel along
  bool ends = false;           ///< the connection ends behind the packet
  PublicationPtr lends = {};   ///< is granted on the channel before the packet is sent; or else see Session::refuse
  std::uint32_t request = 0;   ///< the grant's payload
};

/// Not thread-safe.
class Session {
 public:
  Session(const Directory& directory, Ledger& ledger, std::uint64_t client, std::size_t most_loans) noexcept
      : directory_(directory), ledger_(ledger), client_(client), most_loans_(most_loans) {}

  /// Answer a packet of the client. Throws corrupt_descriptor when it breaks the protocol.
  [[nodiscard]] Reply take(Bytes packet);
  /// Return what replaces a reply that could not be carried out.
  [[nodiscard]] static Packet refuse(std::uint32_t request, Reason reason, std::string text);
  /// Return what keeps a loan in the books.
  [[nodiscard]] std::shared_ptr<const void> mark(const ipc::Listing& tensor) { return ledger_.lend(client_, tensor); }
  /// Return the next packet for a client that has subscribed; nothing when there is no news.
  [[nodiscard]] std::optional<Packet> news();

  [[nodiscard]] bool greeted() const noexcept { return greeted_; }
  [[nodiscard]] bool subscribed() const noexcept { return !pattern_.empty(); }
  [[nodiscard]] std::uint64_t client() const noexcept { return client_; }

 private:
  [[nodiscard]] Reply answer(const Hello& hello);
  [[nodiscard]] Reply answer(const ListNames& asks) const;
  [[nodiscard]] Reply answer(const GetTensor& asks) const;
  [[nodiscard]] Reply answer(const ListGuests& asks) const;

  const Directory& directory_;
  Ledger& ledger_;
  const std::uint64_t client_;
  const std::size_t most_loans_;
  bool greeted_ = false;
  std::string pattern_;     // not empty for a subscriber
  std::uint64_t seen_ = 0;  // the last version of which a subscriber was told
};

}  // namespace weir::detail::names
