// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of a pool's memory, counted in granules, and the classes that keep free ranges of different sizes apart.

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weir::pool {

constexpr std::size_t granule = 256;  ///< bytes; every range begins and ends at a multiple of it

constexpr std::size_t most_bytes = (std::size_t{1} << 40) - granule;  ///< of one range

constexpr std::uint64_t granules_for(std::size_t bytes) noexcept { return (bytes + granule - 1) / granule; }

/// Classes of the ranges that a stream keeps for itself. Requests of up to `rounded_up_to` granules are rounded up to
/// the size of their class, so that every range of the class fits every request of the class. These sizes are the
/// multiples of a granule up to 32 granules, then 16 sizes per doubling, which wastes less than 1/16. For larger
/// requests, a class only says where to look.
constexpr std::uint64_t rounded_up_to = (std::size_t{1} << 20) / granule;
constexpr std::size_t classes = 32 + 16 * 27;

/// Return how many low bits do not decide in which of the 16 parts of its doubling a number is; 0 below 32. There is no
/// branch, because no processor could predict it where sizes are mixed.
constexpr unsigned low_bits(std::uint64_t granules) noexcept {
  return (63U ^ static_cast<unsigned>(std::countl_zero(granules | 16))) - 4;
}

/// Return the largest class whose size is at most `granules`.
constexpr std::size_t class_below(std::uint64_t granules) noexcept {
  const auto low = low_bits(granules);
  return 16 * low + static_cast<std::size_t>(granules >> low) - 1;
}

/// Return the smallest class whose ranges all have at least `granules`, for at most `rounded_up_to` granules.
constexpr std::size_t class_above(std::uint64_t granules) noexcept {
  const auto low = low_bits(granules - 1);
  return 16 * low + static_cast<std::size_t>((granules - 1) >> low);
}

/// Return the granules that a request gets.
constexpr std::uint64_t rounded(std::uint64_t granules) noexcept {
  if (granules > rounded_up_to) return granules;
  const auto step = std::uint64_t{1} << low_bits(granules - 1);
  return (granules + step - 1) & ~(step - 1);
}

/// Round up to the next multiple of `unit`.
constexpr std::uint64_t round_up(std::uint64_t granules, std::uint64_t unit) noexcept {
  return (granules + unit - 1) / unit * unit;
}

/// Return how many granules a range needs so that a request fits with its alignment wherever the range begins.
constexpr std::uint64_t granules_with_slack(std::uint64_t granules, std::size_t alignment) noexcept {
  return granules + (alignment > granule ? alignment / granule - 1 : 0);
}

}  // namespace weir::pool
