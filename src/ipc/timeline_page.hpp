// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline page: 64-bit words in a file that one process writes and its peer reads. A word holds a value that only
// grows. A *point* is a word with a value, and has been reached when the word holds at least that value. Beside each
// word stands its *end*: 0, or the first value whose points are never reached, whatever the word holds. It is a word of
// its own, because a device that goes on after its stream was lost writes the value. The kernel keeps everybody but the
// maker from writing, and keeps the file as long as it is (ADR 18).

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

inline constexpr std::uint32_t page_words = 512;
inline constexpr std::size_t page_bytes = 2 * page_words * sizeof(std::uint64_t);  ///< the words, then their ends
inline constexpr std::uint64_t page_values = std::uint64_t{1} << 63U;              ///< a value of a point is below

/// A word of a page, with a value above 0 and below page_values.
struct PagePoint {
  std::uint32_t word = 0;   ///< below page_words
  std::uint64_t value = 0;  ///< 0 = no point
  [[nodiscard]] friend bool operator==(const PagePoint&, const PagePoint&) noexcept = default;
};

/// The page of this process. Thread-safe. Does nothing in a forked child, whose parent goes on writing.
class OwnPage {
 public:
  /// Throws when the system has no file or no memory for it.
  OwnPage();
  OwnPage(const OwnPage&) = delete;
  OwnPage& operator=(const OwnPage&) = delete;
  ~OwnPage();

  /// Return the file, for peers. It can only be mapped for reading.
  [[nodiscard]] const spi::UniqueFd& file() const noexcept { return file_; }
  /// Return the words, for devices that write them. Whoever lets a device do that keeps the page for good.
  [[nodiscard]] std::uint64_t* words() const noexcept { return words_; }
  /// Say that `point` has been reached, unless it was given up, and wake those that sleep. Points of a word may come in
  /// any order.
  void reach(PagePoint point) noexcept;
  /// Say that the points of the word that have not been reached never will be, also if a device writes their values
  /// later, and wake those that sleep. Somebody who has just looked may sleep on, because a futex sees only the word.
  void give_up(std::uint32_t word) noexcept;
  /// Say that nothing writes `point` any more: if a device has not reached it, give its word up, or else wake those
  /// that sleep, which no device does.
  void settle(PagePoint point) noexcept;
  /// Return whether `point` has been reached, and points above it can be.
  [[nodiscard]] bool goes_on(PagePoint point) const noexcept;
  /// Return whether `point` has been reached.
  [[nodiscard]] bool reached(PagePoint point) const noexcept;

 private:
  spi::UniqueFd file_;
  std::uint64_t* words_ = nullptr;
  const std::uint32_t process_;
};

/// The page of a peer, in which anything may stand.
class PeerPage {
 public:
  enum class State : std::uint8_t { pending, reached, given_up };

  /// Check that `file` is a page, and map it. Throws corrupt_descriptor when it is something else. The caller keeps the
  /// file if this throws.
  explicit PeerPage(spi::StrangerFd&& file);
  PeerPage(const PeerPage&) = delete;
  PeerPage& operator=(const PeerPage&) = delete;
  ~PeerPage();

  /// Return what the page says of `point`; costs two loads.
  [[nodiscard]] State look(PagePoint point) const noexcept;
  /// Sleep until the word of `point`, which is pending, may have changed, and at most that long.
  void sleep(PagePoint point, std::chrono::nanoseconds most) const noexcept;

 private:
  const std::uint64_t* words_ = nullptr;
};

}  // namespace weir::detail
