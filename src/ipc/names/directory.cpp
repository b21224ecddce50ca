// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/directory.hpp"

#include <utility>

#include "weir/error.hpp"

namespace weir::detail::names {

// The lock is held. Changes have the versions from version_ - changes_.size() + 1 on.
void Directory::remember(ipc::News news) {
  changes_.push_back(std::move(news));
  if (changes_.size() > remembered_) changes_.pop_front();
  ++version_;
}

std::uint64_t Directory::publish(const std::shared_ptr<Publication>& made) {
  ipc::News news{ipc::Change::published, made->listing};
  PublicationPtr earlier;
  const std::scoped_lock lock(mutex_);
  const auto [at, is_new] = all_.try_emplace(made->listing.name);
  try {
    if (is_new && all_.size() > most_names_)
      throw Error(Errc::invalid_argument, "ipc::Server::publish: there are " + std::to_string(most_names_) +
                                              " names already, which is ServerOptions::most_names; withdraw some");
    made->listing.version = news.tensor.version = version_ + 1;
    remember(std::move(news));
  } catch (...) {
    if (is_new) all_.erase(at);
    throw;
  }
  earlier = std::exchange(at->second, made);
  return version_;
}

bool Directory::withdraw(std::string_view name) {
  PublicationPtr earlier;
  const std::scoped_lock lock(mutex_);
  const auto at = all_.find(name);
  if (at == all_.end()) return false;
  ipc::News news{ipc::Change::withdrawn, {}};
  news.tensor.name = at->first;
  news.tensor.version = version_ + 1;
  remember(std::move(news));
  earlier = std::move(at->second);
  all_.erase(at);
  return true;
}

void Directory::clear() noexcept {
  decltype(all_) ended;
  const std::scoped_lock lock(mutex_);
  ended.swap(all_);
}

PublicationPtr Directory::find(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto at = all_.find(name);
  return at == all_.end() ? nullptr : at->second;
}

std::size_t Directory::size() const {
  const std::scoped_lock lock(mutex_);
  return all_.size();
}

std::uint64_t Directory::version() const {
  const std::scoped_lock lock(mutex_);
  return version_;
}

std::optional<ipc::News> Directory::after(std::uint64_t& seen, std::string_view pattern) const {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t forgotten = version_ - changes_.size();
  if (seen < forgotten) {
    seen = version_;
    ipc::News missed;
    missed.tensor.version = seen;
    return missed;
  }
  while (seen < version_) {
    const ipc::News& next = changes_[static_cast<std::size_t>(seen - forgotten)];
    ++seen;
    if (matches(next.tensor.name, pattern)) return next;
  }
  return std::nullopt;
}

}  // namespace weir::detail::names
