// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a server has published, and the changes that subscribers may not have heard of yet. Knows neither files nor
// clocks.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ipc/names/messages.hpp"
#include "weir/buffer.hpp"
#include "weir/names.hpp"
#include "weir/stream.hpp"

namespace weir::detail::names {

/// One tensor that is lent to whoever asks for its name.
struct Publication {
  // Not an aggregate: GCC 12 would destroy the listing's members twice if what follows it threw.
  Publication(ipc::Listing lists, Buffer lends, ipc::Access accessible, Stream own) noexcept
      : listing(std::move(lists)), buffer(std::move(lends)), access(accessible), stream(std::move(own)) {}

  ipc::Listing listing;
  Buffer buffer;  ///< none when there are no elements
  ipc::Access access;
  Stream stream;  ///< of the server's own; nothing is on it but waits for what wrote the buffer
};
using PublicationPtr = std::shared_ptr<const Publication>;

/// Thread-safe. No call takes longer for having many clients, and none ends a publication under the lock.
class Directory {
 public:
  Directory(std::size_t most_names, std::size_t remembered)
      : most_names_(most_names), remembered_(remembered) {}

  /// Put the publication in place of the one of the same name, which the caller lets go of. Return its version.
  std::uint64_t publish(const std::shared_ptr<Publication>& made);
  bool withdraw(std::string_view name);
  void clear() noexcept;

  [[nodiscard]] PublicationPtr find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const;
  /// Show `take` the listings of all names that match the pattern and come after `after`, as long as it returns true.
  /// Return how many names it looked at: whatever else is published, those that it shows and at most one more.
  template <class Take>
  std::size_t each(std::string_view pattern, std::string_view after, Take take) const {
    const std::scoped_lock lock(mutex_);
    const auto begin = beginning(pattern);
    std::size_t looked_at = 0;
    for (auto at = after < begin ? all_.lower_bound(begin) : all_.upper_bound(after); at != all_.end(); ++at) {
      ++looked_at;
      if (!matches(at->first, pattern) || !take(std::as_const(at->second->listing))) break;
    }
    return looked_at;
  }

  /// Return the version of the latest change.
  [[nodiscard]] std::uint64_t version() const;
  /// Return the first change after `seen` that concerns the pattern, and move `seen` there. When changes after `seen`
  /// have been forgotten, tell of that. Nothing when there is no news.
  [[nodiscard]] std::optional<ipc::News> after(std::uint64_t& seen, std::string_view pattern) const;

 private:
  void remember(ipc::News news);

  mutable std::mutex mutex_;
  std::map<std::string, PublicationPtr, std::less<>> all_;
  std::deque<ipc::News> changes_;  // without gaps, up to version_
  std::uint64_t version_ = 0;
  const std::size_t most_names_, remembered_;
};

}  // namespace weir::detail::names
