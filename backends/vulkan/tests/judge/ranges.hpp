// SPDX-License-Identifier: Apache-2.0
#pragma once
// Something known of every byte of a memory, kept by ranges of bytes that have the same.

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace judge {

using Bytes = std::uint64_t;

template <class T>
class Ranges {
 public:
  /// Call `look(value, begin, end)` for what is known within [begin, end).
  template <class F>
  void look(Bytes begin, Bytes end, F&& function) const {
    for (auto at = first(begin); at != parts_.end() && at->first < end; ++at) {
      if (at->second.end > begin) function(at->second.value, std::max(begin, at->first), std::min(end, at->second.end));
    }
  }

  /// Call `change(value)` for every part of [begin, end); parts of which nothing was known begin as T{}.
  template <class F>
  void change(Bytes begin, Bytes end, F&& function) {
    if (begin >= end) return;
    cut(begin);
    cut(end);
    Bytes here = begin;
    for (auto at = parts_.lower_bound(begin); here < end; ++at) {
      if (at == parts_.end() || at->first > here) {
        const Bytes gap_ends = at == parts_.end() ? end : std::min(end, at->first);
        at = parts_.emplace_hint(at, here, Part{gap_ends, T{}});
      }
      function(at->second.value);
      here = at->second.end;
    }
  }

  /// Give all of [begin, end) one value.
  void set(Bytes begin, Bytes end, T value) {
    forget(begin, end);
    if (begin < end) parts_.emplace(begin, Part{end, std::move(value)});
  }

  void forget(Bytes begin, Bytes end) {
    if (begin >= end) return;
    cut(begin);
    cut(end);
    parts_.erase(parts_.lower_bound(begin), parts_.lower_bound(end));
  }

  [[nodiscard]] bool empty() const { return parts_.empty(); }

 private:
  struct Part {
    Bytes end;
    T value;
  };

  /// The last part that begins at or before `at`, or the first one.
  auto first(Bytes at) const {
    auto found = parts_.upper_bound(at);
    return found == parts_.begin() ? found : std::prev(found);
  }
  /// Let a part begin at `at` if one covers it.
  void cut(Bytes at) {
    auto found = parts_.lower_bound(at);
    if (found == parts_.begin()) return;
    --found;
    if (found->second.end <= at) return;
    Part rest{found->second.end, found->second.value};
    found->second.end = at;
    parts_.emplace(at, std::move(rest));
  }

  std::map<Bytes, Part> parts_;  // by their first byte; they do not overlap
};

}  // namespace judge
