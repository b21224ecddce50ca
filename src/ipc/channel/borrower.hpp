// SPDX-License-Identifier: Apache-2.0
#pragma once
// The half of a connection that borrows memory: the segments and the page that the peer told of, and what the peer has yet to be told
// of the buffers that came. Knows neither files nor clocks.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipc/channel/messages.hpp"

namespace weir::detail::channel {

/// What a side lets its peer lend.
enum class Borrows : bool { nothing, buffers };

/// Keeps a `Memory` for each segment that the peer told of. `Memory::size()` is in bytes. Not thread-safe.
template <class Memory>
class Borrower {
 public:
  static constexpr std::size_t most_segments = 65536;

  /// `window` is what this side said in its Hello.
  explicit Borrower(std::uint32_t window, Borrows what = Borrows::buffers) noexcept : window_(window), what_(what) {}

  [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
  /// The peer tells of a segment, which has so many files.
  void add(std::uint32_t number, Memory memory, std::size_t files = 1) {
    check_borrows();
    if (number <= last_) violated("segment " + std::to_string(number) + " after " + std::to_string(last_));
    if (unopened_ == window_) violated("more than " + std::to_string(window_) + " segments without a buffer that was taken");
    if (segments_.size() == most_segments) violated("more than " + std::to_string(most_segments) + " segments");
    const std::size_t counted = files == 1 ? 0 : files;  // of the others, the window is the limit
    if (counted > most_unopened_files - unopened_files_)
      violated("more than " + std::to_string(most_unopened_files) +
               " files of segments without a buffer that was taken");
    segments_.emplace(number, Told{std::move(memory), counted});
    last_ = number;
    ++unopened_;
    unopened_files_ += counted;
  }
  /// The peer grants nothing of the segment any more. Return what was kept for it. A buffer that nobody has taken keeps
  /// the segment's files open, so there must be none.
  [[nodiscard]] Memory retire(std::uint32_t number) {
    const auto known = segments_.find(number);
    if (known == segments_.end()) violated("segment " + std::to_string(number) + " ends, of which it never told");
    if (known->second.arrived != 0)
      violated("segment " + std::to_string(number) + " ends while buffers of it are lent");
    forget_files(known->second);
    return std::move(segments_.extract(known).mapped().memory);
  }
  /// The peer tells of its page.
  void add_page() {
    check_borrows();
    if (std::exchange(has_page_, true)) violated("a second page");
  }
  /// A grant is about to arrive. Return its segment.
  [[nodiscard]] Memory& check(const Grant& grant) {
    if (arrived_ + (to_credit_ - told_credit_) >= window_)  // what is being told, the peer may know
      violated("more than " + std::to_string(window_) + " buffers");
    const auto known = segments_.find(grant.segment);
    if (known == segments_.end()) violated("a buffer of segment " + std::to_string(grant.segment) + ", of which it never told");
    const std::uint64_t all = known->second.memory.size();
    if (grant.size == 0 || grant.offset > all || grant.size > all - grant.offset)
      violated(std::to_string(grant.size) + " bytes at offset " + std::to_string(grant.offset) + " of a segment of " + std::to_string(all));
    if (grant.ready.value != 0 && !has_page_) violated("a buffer waits for a point of a page of which it never told");
    return known->second.memory;
  }
  /// A grant of that segment, which was checked, has arrived.
  void arrive(std::uint32_t segment) noexcept {
    ++arrived_;
    ++segments_.find(segment)->second.arrived;
  }
  /// Get the memory that the next take() needs.
  void make_room() {
    const std::size_t needed = to_release_.size() + held_ + 1;
    if (to_release_.capacity() < needed) to_release_.reserve(2 * needed);
  }
  /// The user takes a grant of that segment that had arrived, or refuses it. Afterwards, the end of the grant needs no
  /// memory, and the segment's files do not count, because the peer may send as many again. Opening the segment closes
  /// them. If it is refused, or this process is short of something, they stay open for the next buffer of the segment.
  void take(std::uint32_t segment) {
    make_room();
    --arrived_;
    ++held_;
    ++to_credit_;
    const auto known = segments_.find(segment);
    if (known == segments_.end()) return;  // the peer is gone
    --known->second.arrived;
    owes_files_ = owes_files_ || (known->second.unopened && known->second.files != 0);
    forget_files(known->second);
  }
  /// A grant that was taken is used no more.
  void end(std::uint64_t number) noexcept {
    --held_;
    to_release_.push_back(number);
  }

  /// Return whether it is time to tell the peer of what has happened. It may wait for room for files.
  [[nodiscard]] bool owes_much() const noexcept {
    return to_release_.size() >= 64 || to_credit_ > window_ / 4 || owes_files_;
  }
  [[nodiscard]] std::size_t to_release() const noexcept { return to_release_.size(); }
  /// Put into the packet what fits of what the peer has to be told.
  void tell(PacketWriter& packet) {
    if (to_credit_ != 0 && packet.add(Credit{to_credit_})) told_credit_ = to_credit_;
    std::span<const std::uint64_t> rest = to_release_;
    (void)packet.add(rest);
    told_releases_ = to_release_.size() - rest.size();
  }
  /// The packet of the last tell() was sent.
  void told() noexcept {
    to_credit_ -= std::exchange(told_credit_, 0);
    owes_files_ = owes_files_ && to_credit_ != 0;
    const auto sent = to_release_.begin() + static_cast<std::ptrdiff_t>(std::exchange(told_releases_, 0));
    to_release_.erase(to_release_.begin(), sent);
  }
  /// The packet of the last tell() was not sent.
  void untold() noexcept { told_credit_ = 0, told_releases_ = 0; }

  /// The peer is gone. Return what was kept for its segments.
  [[nodiscard]] auto end() noexcept { return std::exchange(segments_, {}); }
  [[nodiscard]] std::size_t segments() const noexcept { return segments_.size(); }
  [[nodiscard]] std::uint32_t arrived() const noexcept { return arrived_; }  ///< and not taken
  [[nodiscard]] std::size_t held() const noexcept { return held_; }          ///< taken and not ended

 private:
  struct Told {
    Memory memory;
    std::size_t files;  // that count
    bool unopened = true;
    std::uint32_t arrived = 0;  // grants that are not taken
  };

  void check_borrows() const {
    if (what_ == Borrows::nothing) violated("it lends where nothing is borrowed");
  }
  void forget_files(Told& told) noexcept {
    if (!std::exchange(told.unopened, false)) return;
    --unopened_;
    unopened_files_ -= told.files;
  }

  std::map<std::uint32_t, Told> segments_;
  std::uint32_t last_ = 0;
  bool has_page_ = false;
  const std::uint32_t window_;
  const Borrows what_;
  std::uint32_t arrived_ = 0, unopened_ = 0, to_credit_ = 0, told_credit_ = 0;
  std::size_t unopened_files_ = 0;  // of segments of several parts
  bool owes_files_ = false;         // the peer does not know yet of all files that were opened
  std::size_t held_ = 0;
  std::vector<std::uint64_t> to_release_;
  std::size_t told_releases_ = 0;
};

}  // namespace weir::detail::channel
