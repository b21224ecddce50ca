// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is ordered before what: for every stream the number of the last piece of its work that comes before.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace fake {

using Id = unsigned long long;
using Time = std::uint64_t;

/// What the host found complete, and when: work is ordered after that if it was put on its stream later.
class Observed {
 public:
  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] bool covers(Id stream, std::uint64_t work, Time at) const {
    const auto found = history_.find(stream);
    if (found == history_.end()) return false;
    const auto first =
        std::lower_bound(found->second.begin(), found->second.end(), std::pair<std::uint64_t, Time>{work, 0});
    return first != found->second.end() && first->second <= at;
  }
  void raise(Id stream, std::uint64_t work) {
    auto& history = history_[stream];
    if (history.empty() || history.back().first < work) history.emplace_back(work, ++now_);
  }

 private:
  std::map<Id, std::vector<std::pair<std::uint64_t, Time>>> history_;
  Time now_ = 0;
};

/// What comes before a point: work by its number, and all that the host had found complete at a time.
struct Clock {
  std::map<Id, std::uint64_t> last;
  Time host = 0;

  void raise(Id stream, std::uint64_t work) {
    auto& known = last[stream];
    if (known < work) known = work;
  }
  void merge(const Clock& other) {
    for (const auto& [stream, work] : other.last) raise(stream, work);
    host = std::max(host, other.host);
  }
  [[nodiscard]] bool covers(Id stream, std::uint64_t work, const Observed& observed) const {
    const auto found = last.find(stream);
    return (found != last.end() && found->second >= work) || observed.covers(stream, work, host);
  }
  /// Go on from what the host knows now, which makes most of the rest superfluous.
  void catch_up(const Observed& observed) {
    host = observed.now();
    std::erase_if(last, [&](const auto& entry) { return observed.covers(entry.first, entry.second, host); });
  }
};

}  // namespace fake
