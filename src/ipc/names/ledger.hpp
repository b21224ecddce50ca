// SPDX-License-Identifier: Apache-2.0
#pragma once
// The clients of a server, and what each of them has. Knows neither files nor clocks.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/names.hpp"

namespace weir::detail::names {

/// Keeps the marks of loans; a loan is over when the last owner of its mark is gone. Thread-safe.
class Ledger {
 public:
  /// Enter a client, and return its number.
  [[nodiscard]] std::uint64_t enter(std::uint32_t user);
  /// The client's connection is for news.
  void subscribe(std::uint64_t client) noexcept;
  /// Return the mark of one more loan.
  [[nodiscard]] std::shared_ptr<const void> lend(std::uint64_t client, const ipc::Listing& tensor);
  /// The client has left. It stays until it holds nothing.
  void leave(std::uint64_t client) noexcept;

  [[nodiscard]] std::size_t loans(std::uint64_t client) const;  ///< that are not over
  [[nodiscard]] std::size_t clients();                          ///< with those that have left and hold something
  [[nodiscard]] std::vector<ipc::Guest> guests();
  /// Give `take` an entry for each loan that comes after the given one, and one for each client without loans, as long
  /// as it wants them.
  template <class Take>
  void each(std::uint64_t after, std::uint64_t after_version, Take take) {
    for (const ipc::Guest& guest : guests()) {
      if (guest.number < after) continue;
      ipc::Guest entry = guest;
      if (guest.loans.empty() && guest.number > after && !take(std::move(entry))) return;
      for (const ipc::Loan& loan : guest.loans) {
        if (guest.number == after && loan.version <= after_version) continue;
        entry = guest;
        entry.loans.assign(1, loan);
        if (!take(std::move(entry))) return;
      }
    }
  }

 private:
  struct Lent {
    ipc::Loan loan;
    std::weak_ptr<const ipc::Loan> mark;
  };
  struct Client {
    std::uint32_t user = 0;
    bool connected = true, subscribed = false;
    std::map<std::uint64_t, Lent> lent;  // by version
  };
  static void forget_ended(Client& client) noexcept;
  void forget_gone() noexcept;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Client> all_;
  std::uint64_t last_ = 0;
};

}  // namespace weir::detail::names
