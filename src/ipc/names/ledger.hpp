// SPDX-License-Identifier: Apache-2.0
#pragma once
// The clients of a server, and what each of them has. Knows neither files nor clocks.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
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
  /// Return whether there is room for one more client of `user` among `most`. A user's further clients leave a place
  /// for each of `users` that has none, so that no user keeps another one out.
  [[nodiscard]] bool has_room(std::uint32_t user, std::size_t most, std::span<const std::uint32_t> users);
  [[nodiscard]] std::vector<ipc::Guest> guests();
  /// Show `take` an entry for each loan that comes after the given one, and one for each client without loans, as long
  /// as it returns true. Return how many clients and loans it looked at: whatever else there is, none that comes
  /// before or behind what it shows, but for one. Loans that are over are forgotten.
  template <class Take>
  std::size_t each(std::uint64_t after, std::uint64_t after_version, Take take) {
    const std::scoped_lock lock(mutex_);
    std::size_t looked_at = 0;
    for (auto at = all_.lower_bound(after); at != all_.end(); ++at) {
      ++looked_at;
      auto& [number, client] = *at;
      ipc::Guest entry{number, client.user, client.connected, client.subscribed, {}};
      auto& lent = client.lent;
      for (auto next = number == after ? lent.upper_bound(after_version) : lent.begin(); next != lent.end();) {
        ++looked_at;
        const auto count = static_cast<std::size_t>(next->second.mark.use_count());
        if (count == 0) {
          next = lent.erase(next);
          continue;
        }
        entry.loans.assign(1, next->second.loan);
        entry.loans.front().count = count;
        if (!take(std::as_const(entry))) return looked_at;
        ++next;
      }
      const bool was_shown = number == after || !entry.loans.empty();
      if (!was_shown && client.connected && !take(std::as_const(entry))) return looked_at;
    }
    return looked_at;
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
  std::map<std::uint32_t, std::size_t> here_;  // how many clients there are of each user who has any
  std::uint64_t last_ = 0;
};

}  // namespace weir::detail::names
