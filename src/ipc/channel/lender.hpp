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
    return files == 1 || on_their_way_ == 0 || files <= most_unopened_files - std::min(most_unopened_files, unopened_);
  }
  /// The peer was told of them.
  void tell_files(std::size_t files) noexcept { unopened_ += files; }
  /// The peer's user has taken so many.
  void credit(std::uint32_t buffers) {
    if (buffers == 0 || buffers > on_their_way_)
      violated("it took " + std::to_string(buffers) + " buffers of " + std::to_string(on_their_way_));
    on_their_way_ -= buffers;
    if (on_their_way_ == 0) unopened_ = 0;
  }

  /// Return the number by which the peer knows the segment with that access.
  [[nodiscard]] Told tell(ToldOf segment) {
    const auto [known, first] = told_.try_emplace(segment, last_segment_ + 1);
    if (first) ++last_segment_;
    return {known->second, first};
  }
  /// Undo a first tell(), whose message was not sent.
  void untell(ToldOf segment) noexcept { told_.erase(segment); }
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
    ++live_;
    return std::uint64_t{++slot.round} << 32U | at;
  }
  /// Undo a lend(), whose message was not sent. Return what was kept for it; nothing if the peer has released it, or was
  /// credited for it: then the peer broke the protocol, and what is left comes back at the end().
  [[nodiscard]] std::optional<Held> unlend(std::uint64_t number) noexcept {
    if (!is_lent(number) || on_their_way_ == 0) return std::nullopt;
    if (--on_their_way_ == 0) unopened_ = 0;
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
  std::size_t unopened_ = 0;  // files of segments of several parts, told of since nothing was on its way
};

}  // namespace weir::detail::channel
