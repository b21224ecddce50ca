// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/ledger.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace weir::detail::names {

std::uint64_t Ledger::enter(std::uint32_t user) {
  const std::scoped_lock lock(mutex_);
  auto& count = here_[user];
  try {
    all_[last_ + 1].user = user;
  } catch (...) {
    if (count == 0) here_.erase(user);
    throw;
  }
  ++count;
  return ++last_;
}

void Ledger::subscribe(std::uint64_t client) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto at = all_.find(client);
  if (at != all_.end()) at->second.subscribed = true;
}

std::shared_ptr<const void> Ledger::lend(std::uint64_t client, const ipc::Listing& tensor) {
  const std::scoped_lock lock(mutex_);
  Client& who = all_.at(client);
  forget_ended(who);
  Lent& lent = who.lent[tensor.version];
  if (auto mark = lent.mark.lock()) return mark;
  auto mark = std::make_shared<const ipc::Loan>(ipc::Loan{tensor.name, tensor.version, 0, tensor.bytes});
  lent = {*mark, mark};
  return mark;
}

void Ledger::leave(std::uint64_t client) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto at = all_.find(client);
  if (at == all_.end()) return;
  at->second.connected = false;
  forget_gone();
}

std::size_t Ledger::loans(std::uint64_t client) const {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [version, lent] : all_.at(client).lent) count += static_cast<std::size_t>(lent.mark.use_count());
  return count;
}

std::size_t Ledger::clients() {
  const std::scoped_lock lock(mutex_);
  forget_gone();
  return all_.size();
}

bool Ledger::has_room(std::uint32_t user, std::size_t most, std::span<const std::uint32_t> users) {
  const std::scoped_lock lock(mutex_);
  forget_gone();
  const auto is_here = [this](std::uint32_t one) { return here_.contains(one); };
  std::size_t places = all_.size();
  if (is_here(user)) places += static_cast<std::size_t>(std::ranges::count_if(users, std::not_fn(is_here)));
  return places < most;
}

std::vector<ipc::Guest> Ledger::guests() {
  const std::scoped_lock lock(mutex_);
  forget_gone();
  std::vector<ipc::Guest> all;
  all.reserve(all_.size());
  for (auto& [number, client] : all_) {
    forget_ended(client);
    all.push_back({number, client.user, client.connected, client.subscribed, {}});
    for (const auto& [version, lent] : client.lent) {
      all.back().loans.push_back(lent.loan);
      all.back().loans.back().count = static_cast<std::size_t>(lent.mark.use_count());
    }
  }
  return all;
}

// The lock is held.
void Ledger::forget_ended(Client& client) noexcept {
  std::erase_if(client.lent, [](const auto& entry) { return entry.second.mark.expired(); });
}

// The lock is held.
void Ledger::forget_gone() noexcept {
  for (auto& [number, client] : all_) {
    if (!client.connected) forget_ended(client);
  }
  std::erase_if(all_, [this](const auto& entry) {
    const Client& client = entry.second;
    if (client.connected || !client.lent.empty()) return false;
    const auto here = here_.find(client.user);
    if (--here->second == 0) here_.erase(here);
    return true;
  });
}

}  // namespace weir::detail::names
