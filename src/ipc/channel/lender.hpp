// SPDX-License-Identifier: Apache-2.0
#pragma once
// The half of a connection that lends memory: what the peer has been told of, what it holds, and how much more it may
// be sent. Knows neither files nor clocks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ipc/channel/messages.hpp"
#include "weir/access.hpp"

namespace weir::detail::channel {

/// A segment of this process with the access that a peer has to it. A peer with both is told of the segment twice. The
/// segment is known by its object: its id may be what some peer says.
struct ToldOf {
  const void* segment;  ///< compared, never followed
  ipc::Access access;
  friend auto operator<=>(const ToldOf&, const ToldOf&) = default;
};

/// Keeps a `Held` for each grant, until the peer releases it or is gone. Not thread-safe.
template <class Held>
class Lender {
 public:
  /// A grant, or none.
  struct Slot {
    [[nodiscard]] bool is_grant() const noexcept { return next == in_use; }
    Held held{};
    std::uint32_t round = 0;  // so that an old number of the slot is not taken for the new one
    std::uint32_t next = none;
  };
  struct Told {
    std::uint32_t number;
    bool first;  ///< the peer has to be told
  };

  /// The peer takes so many buffers that its user has not asked for yet.
  void open_window(std::uint32_t buffers) noexcept { window_ = buffers; }
  /// Return how many more buffers may be sent now.
  [[nodiscard]] std::uint32_t room() const noexcept { return window_ - on_their_way_; }
  /// Return whether the peer may be told of a segment with so many files now. It keeps them open until its user takes
  /// the first buffer of the segment, so segments of many parts do not come one right after another.
  [[nodiscard]] bool takes_files(std::size_t files) const noexcept {
    return files == 1 || unopened_ == 0 || files <= most_unopened_files - std::min(most_unopened_files, unopened_);
  }
  /// The peer is told of a segment with so many files, together with the grant that is lent next.
  void tell_files(std::size_t files) {
    unopened_segments_.push_back({lent_ + 1, files});
    unopened_ += files;
  }
  /// The peer's user has taken so many. They are taken in the order of their grants.
  void credit(std::uint32_t buffers) {
    if (buffers == 0 || buffers > on_their_way_)
      violated("it took " + std::to_string(buffers) + " buffers of " + std::to_string(on_their_way_));
    on_their_way_ -= buffers;
    const auto untaken = std::ranges::find_if(
        unopened_segments_, [taken = lent_ - on_their_way_](const Unopened& one) { return one.grant > taken; });
    for (auto opened = unopened_segments_.begin(); opened != untaken; ++opened) unopened_ -= opened->files;
    unopened_segments_.erase(unopened_segments_.begin(), untaken);
  }

  /// Return the number by which the peer knows the segment with that access.
  [[nodiscard]] Told tell(ToldOf segment) {
    const auto [known, first] = told_.try_emplace(segment, last_segment_ + 1);
    if (first) ++last_segment_;
    return {known->second, first};
  }
  /// Undo a first tell(), whose message was not sent, after the grants of that message were undone.
  void untell(ToldOf segment) noexcept {
    told_.erase(segment);
    for (; !unopened_segments_.empty() && unopened_segments_.back().grant > lent_; unopened_segments_.pop_back())
      unopened_ -= unopened_segments_.back().files;
  }
  /// The segment is gone. Return the number of which the peer has to be told, if it knows the segment with that access.
  [[nodiscard]] std::optional<std::uint32_t> ended(ToldOf segment) noexcept {
    const auto known = told_.extract(segment);
    return known.empty() ? std::nullopt : std::optional(known.mapped());
  }

  /// Keep `held`, and return the number of the grant. There must be room().
  [[nodiscard]] std::uint64_t lend(Held held) {
    if (free_ == none) {
      grants_.emplace_back();
      free_ = static_cast<std::uint32_t>(grants_.size() - 1);
    }
    const std::uint32_t at = free_;
    Slot& slot = grants_[at];
    free_ = slot.next;
    slot.next = in_use;
    slot.held = std::move(held);
    ++on_their_way_;
    ++lent_;
    ++live_;
    return std::uint64_t{++slot.round} << 32U | at;
  }
  /// Undo a lend(), whose message was not sent. Return what was kept for it; nothing if the peer has released it, or was
  /// credited for it: then the peer broke the protocol, and what is left comes back at the end().
  [[nodiscard]] std::optional<Held> unlend(std::uint64_t number) noexcept {
    if (!is_lent(number) || on_their_way_ == 0) return std::nullopt;
    --on_their_way_;
    --lent_;
    return take(number);
  }
  /// The peer uses the grant no more. Return what was kept for it.
  [[nodiscard]] Held release(std::uint64_t number) {
    if (!is_lent(number)) violated("it released grant " + std::to_string(number) + ", which it does not have");
    return take(number);
  }
  /// The peer is gone. Return all that was kept, among slots that keep nothing.
  [[nodiscard]] std::vector<Slot> end() noexcept {
    told_.clear();
    free_ = none;
    live_ = 0;
    return std::exchange(grants_, {});
  }

  /// Call `function` with what is kept for each grant.
  template <class F>
  void for_each(F function) const {
    for (const Slot& slot : grants_) {
      if (slot.is_grant()) function(slot.held);
    }
  }
  [[nodiscard]] std::size_t live() const noexcept { return live_; }      ///< grants
  [[nodiscard]] std::size_t told() const noexcept { return told_.size(); }  ///< segments that the peer knows

 private:
  static constexpr std::uint32_t none = UINT32_MAX, in_use = UINT32_MAX - 1;
  struct Unopened {
    std::uint64_t grant;  // the first one of the segment, counted from 1
    std::size_t files;
  };

  [[nodiscard]] bool is_lent(std::uint64_t number) const noexcept {
    const auto at = static_cast<std::uint32_t>(number);
    return at < grants_.size() && grants_[at].is_grant() && grants_[at].round == number >> 32U;
  }
  [[nodiscard]] Held take(std::uint64_t number) noexcept {
    const auto at = static_cast<std::uint32_t>(number);
    Slot& slot = grants_[at];
    slot.next = std::exchange(free_, at);
    --live_;
    return std::exchange(slot.held, Held{});
  }

  std::vector<Slot> grants_;
  std::uint32_t free_ = none;
  std::size_t live_ = 0;
  std::map<ToldOf, std::uint32_t> told_;
  std::uint32_t last_segment_ = 0;
  std::uint32_t window_ = 0, on_their_way_ = 0;
  std::uint64_t lent_ = 0;                   // grants so far
  std::vector<Unopened> unopened_segments_;  // of several parts, whose first grant is on its way
  std::size_t unopened_ = 0;                 // files of these
};

}  // namespace weir::detail::channel
