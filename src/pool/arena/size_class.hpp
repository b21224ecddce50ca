// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of a pool's memory, counted in granules, and the classes by which free ranges are kept apart.

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weir::pool {

constexpr std::size_t granule = 256;  ///< bytes; every range begins and ends at a multiple of it

constexpr std::size_t most_bytes = (std::size_t{1} << 40) - granule;  ///< of one range

constexpr std::uint64_t granules_for(std::size_t bytes) noexcept { return (bytes + granule - 1) / granule; }

/// Classes of the ranges that a stream keeps for itself. Up to `rounded_up_to`, requests are rounded up to the class's
/// size, so that every member fits every request of the class: multiples of a granule up to 32 of them, then 16 to a
/// doubling, which wastes less than 1/16. Above, a class only says where to look.
constexpr std::uint64_t rounded_up_to = (std::size_t{1} << 20) / granule;
constexpr std::size_t classes = 32 + 16 * 27;

/// Low bits that do not decide in which of 16 parts of its doubling a number lies; 0 below 32. Without a branch, which no
/// processor would foresee where sizes mix.
constexpr unsigned low_bits(std::uint64_t granules) noexcept {
  return (63U ^ static_cast<unsigned>(std::countl_zero(granules | 16))) - 4;
}

/// The largest class whose members all have at most `granules`.
constexpr std::size_t class_below(std::uint64_t granules) noexcept {
  const auto low = low_bits(granules);
  return 16 * low + static_cast<std::size_t>(granules >> low) - 1;
}

/// The smallest class whose members all have at least `granules`, of at most `rounded_up_to`.
constexpr std::size_t class_above(std::uint64_t granules) noexcept {
  const auto low = low_bits(granules - 1);
  return 16 * low + static_cast<std::size_t>((granules - 1) >> low);
}

/// Granules that a request gets.
constexpr std::uint64_t rounded(std::uint64_t granules) noexcept {
  if (granules > rounded_up_to) return granules;
  const auto step = std::uint64_t{1} << low_bits(granules - 1);
  return (granules + step - 1) & ~(step - 1);
}

/// To the next multiple of `unit`.
constexpr std::uint64_t round_up(std::uint64_t granules, std::uint64_t unit) noexcept {
  return (granules + unit - 1) / unit * unit;
}

/// Granules of a range in which a request has its alignment wherever the range begins.
constexpr std::uint64_t granules_with_slack(std::uint64_t granules, std::size_t alignment) noexcept {
  return granules + (alignment > granule ? alignment / granule - 1 : 0);
}

}  // namespace weir::pool
