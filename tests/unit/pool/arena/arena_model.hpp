// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pool's arena should know, as a plain list of intervals. Then checked_arena.hpp.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <stdexcept>

namespace weir::pool {

/// The arena and its model are not of one mind.
class Disagreement : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};
inline void agree(bool holds, const char* what) {
  if (!holds) throw Disagreement(what);
}

/// One region: whose is each interval. All in granules.
class Intervals {
 public:
  enum Sort { live, everyones, of_shard, bare };
  struct Piece {
    std::uint64_t granules;
    Sort sort;
    std::uint64_t closed_at;
  };

  /// Of memory that is free for every stream.
  static Intervals of_memory(std::uint64_t granules, bool large) {
    Intervals made{0, granules, large};
    made.pieces[0] = {granules, everyones, 0};
    return made;
  }
  /// Of addresses without memory.
  static Intervals of_addresses(std::uint64_t begin, std::uint64_t end, bool large) {
    return {begin, end, large};
  }

  /// Make [first, first + count) live, and return what all of it was.
  Piece take(std::uint64_t first, std::uint64_t count) {
    auto at = pieces.upper_bound(first);
    agree(at != pieces.begin(), "a range where nothing is");
    const auto [from, piece] = *--at;
    agree(piece.sort != live, "memory that is in use was handed out");
    agree(first + count <= from + piece.granules, "a range leaves its free one");
    pieces.erase(at);
    if (first > from) pieces[from] = {first - from, piece.sort, piece.closed_at};
    const auto behind = from + piece.granules - first - count;
    if (behind != 0) pieces[first + count] = {behind, piece.sort, piece.closed_at};
    pieces[first] = {count, live, 0};
    return piece;
  }
  /// What was live from `first` on is of that sort now. Neighbours of one sort are one, but for buffers.
  void give(std::uint64_t first, Sort sort, std::uint64_t closed_at) {
    Piece& given = pieces.at(first);
    agree(given.sort == live, "what is given was not live");
    given = {given.granules, sort, closed_at};
    merge();
    if (!pieces.empty() && std::prev(pieces.end())->second.sort == bare)
      pieces.erase(std::prev(pieces.end()));
  }
  /// What the shard had from `first` on is everyone's.
  void clear(std::uint64_t first) {
    agree(pieces.at(first).sort == of_shard, "what is cleared was not the shard's");
    pieces.at(first).sort = everyones;
    merge();
  }
  /// Addresses behind the last piece become a live one.
  void extend(std::uint64_t first, std::uint64_t count) {
    agree(first == used_end() && first + count <= end, "addresses that are none, or not the next ones");
    pieces[first] = {count, live, 0};
  }

  [[nodiscard]] std::uint64_t largest(Sort sort) const {
    std::uint64_t most = 0;
    for (const auto& [first, piece] : pieces) {
      if (piece.sort == sort) most = std::max(most, piece.granules);
    }
    return most;
  }
  /// Whether an opening of that size must be found: neighbours, of which one at least is bare or behind all
  /// others.
  [[nodiscard]] bool opens(std::uint64_t granules, std::uint64_t unit) const {
    std::uint64_t run = 0;
    bool has_bare = false;
    for (const auto& [first, piece] : pieces) {
      const bool free = piece.sort == everyones || piece.sort == bare;
      run = free ? run + piece.granules : 0;
      has_bare = free && (has_bare || piece.sort == bare);
      if (has_bare && run >= granules) return true;
    }
    if (run >= granules) return false;
    return (granules - run + unit - 1) / unit * unit <= end - used_end();
  }
  [[nodiscard]] std::uint64_t used_end() const {
    if (pieces.empty()) return begin;
    const auto& [first, piece] = *std::prev(pieces.end());
    return first + piece.granules;
  }

  std::uint64_t begin, end;
  bool large;
  std::map<std::uint64_t, Piece> pieces = {};  ///< by first granule; no gaps

 private:
  Intervals(std::uint64_t from, std::uint64_t to, bool for_large) : begin(from), end(to), large(for_large) {}

  void merge() {
    for (auto at = pieces.begin(); at != pieces.end();) {
      const auto next = std::next(at);
      Piece& piece = at->second;
      if (next != pieces.end() && piece.sort == next->second.sort && piece.sort != live) {
        piece.granules += next->second.granules;
        piece.closed_at = std::max(piece.closed_at, next->second.closed_at);
        pieces.erase(next);
      } else {
        at = next;
      }
    }
  }
};

}  // namespace weir::pool
