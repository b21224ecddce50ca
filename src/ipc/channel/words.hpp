// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which word of a timeline page stands for which stream, and which values of it were given out. Knows neither files nor
// clocks.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ipc/timeline_page.hpp"

namespace weir::detail::channel {

/// Gives each stream a word of its own as long as the stream has points that were not reached. Not thread-safe.
class Words {
 public:
  explicit Words(std::uint32_t count = page_words) noexcept : count_(count) {}  ///< so many of the page's words

  /// Return the word of `stream`, which is a free one if it has none; nothing if all are in use. `reached(point)` says
  /// whether a point has been reached, and later ones of its word can be.
  template <class Reached>
  [[nodiscard]] std::optional<std::uint32_t> of(std::uint64_t stream, const Reached& reached) {
    if (const auto known = find(stream)) return known;
    const auto free = find_free(reached);
    if (!free) return std::nullopt;
    if (*free == words_.size()) words_.emplace_back();
    Word& word = words_[*free];
    word_of_.emplace(stream, *free);  // throws without memory, and nothing has changed then
    word_of_.erase(std::exchange(word.stream, stream));
    word.position = 0;
    return free;
  }
  /// Return the word that `stream` has, if it has one.
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t stream) const {
    const auto known = word_of_.find(stream);
    return known == word_of_.end() ? std::nullopt : std::optional(known->second);
  }
  /// Return how many words have points that were not reached.
  template <class Reached>
  [[nodiscard]] std::size_t waited_for(const Reached& reached) const {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < words_.size(); ++i) count += !reached(PagePoint{i, words_[i].given});
    return count;
  }
  /// Keep the word for its stream, whose next point is on its way, until release(). Returns false if it is kept
  /// already.
  [[nodiscard]] bool keep(std::uint32_t word) noexcept { return !std::exchange(words_[word].kept, true); }
  void release(std::uint32_t word) noexcept { words_[word].kept = false; }
  /// Return the point that follows those that were given of the word.
  [[nodiscard]] PagePoint next(std::uint32_t word) const noexcept { return {word, words_[word].given + 1}; }
  /// Say that next() was given, and covers what the stream had up to `position`.
  void give(std::uint32_t word, std::uint64_t position) noexcept {
    ++words_[word].given;
    words_[word].position = position;
  }
  /// Return the last point that was given, if it covers what the stream had up to `position`.
  [[nodiscard]] std::optional<PagePoint> given(std::uint32_t word, std::uint64_t position) const noexcept {
    if (words_[word].position != position) return std::nullopt;
    return PagePoint{word, words_[word].given};
  }

 private:
  struct Word {
    std::uint64_t stream = 0;    // which had it last; 0 = none
    std::uint64_t given = 0;     // last value
    std::uint64_t position = 0;  // of the stream, that this value covers; 0 = none of this stream
    bool kept = false;
  };

  // A word can go to another stream when all its points have been reached, because that stream's points are the later
  // ones.
  template <class Reached>
  std::optional<std::uint32_t> find_free(const Reached& reached) {
    if (words_.size() < count_) return static_cast<std::uint32_t>(words_.size());
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint32_t word = hand_++ % count_;
      if (!words_[word].kept && reached(PagePoint{word, words_[word].given})) return word;
    }
    return std::nullopt;
  }

  const std::uint32_t count_;
  std::vector<Word> words_;
  std::map<std::uint64_t, std::uint32_t> word_of_;  // by stream
  std::uint32_t hand_ = 0;                          // where the search for a free word goes on
};

}  // namespace weir::detail::channel
