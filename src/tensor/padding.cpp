// SPDX-License-Identifier: Apache-2.0
#include "weir/padding.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "base/refuse.hpp"
#include "weir/error.hpp"

namespace weir {
namespace {

// These two return nothing when the number overflows 64 bits.

std::optional<std::int64_t> common_multiple(std::int64_t a, std::int64_t b) {
  std::int64_t multiple;
  if (__builtin_mul_overflow(a / std::gcd(a, b), b, &multiple)) return std::nullopt;
  return multiple;
}

std::optional<std::int64_t> round_up(std::int64_t extent, std::int64_t multiple) {
  const auto beyond = extent % multiple;
  if (beyond == 0) return extent;
  std::int64_t rounded;
  if (__builtin_add_overflow(extent, multiple - beyond, &rounded)) return std::nullopt;
  return rounded;
}

std::int64_t united(std::int64_t a, std::int64_t b) {
  if (const auto multiple = common_multiple(a, b)) return *multiple;
  detail::refuse("PaddingNeeds",
                 "the common multiple of " + std::to_string(a) + " and " + std::to_string(b) + " overflows 64 bits");
}

void check(const PaddingNeeds& needs) {
  if (needs.size < 0) detail::refuse("PaddingNeeds", "size " + std::to_string(needs.size) + " is negative");
  if (needs.at_least < 0) {
    detail::refuse("PaddingNeeds", "the least extent " + std::to_string(needs.at_least) + " is negative");
  }
  for (const auto multiple : {needs.multiple_of, needs.aligned_to})
    if (multiple < 1) detail::refuse("PaddingNeeds", "multiple " + std::to_string(multiple) + " is less than 1");
}

std::int64_t least_of(const PaddingNeeds& needs) {
  check(needs);
  const auto wanted = std::max(needs.size, needs.at_least);
  const auto rounded = round_up(wanted, needs.multiple_of);
  if (!rounded) {
    detail::refuse("PaddingNeeds", "extent " + std::to_string(wanted) + ", rounded up to a multiple of " +
                                       std::to_string(needs.multiple_of) + ", overflows 64 bits");
  }
  const auto least = *rounded;
  if (needs.exact && least != needs.size) {
    detail::refuse("PaddingNeeds",
                   "size " + std::to_string(needs.size) + " must stay as it is, and must be padded to at least " +
                       std::to_string(needs.at_least) + " and a multiple of " + std::to_string(needs.multiple_of));
  }
  return least;
}

}  // namespace

PaddingNeeds PaddingNeeds::unite(const PaddingNeeds& other) const {
  check(*this);
  check(other);
  if (size != other.size)
    detail::refuse("PaddingNeeds", "sizes " + std::to_string(size) + " and " + std::to_string(other.size) + " differ");
  const PaddingNeeds both{size, std::max(at_least, other.at_least), united(multiple_of, other.multiple_of),
                          united(aligned_to, other.aligned_to), exact || other.exact};
  (void)least_of(both);
  return both;
}

std::int64_t PaddingNeeds::extent() const {
  const auto least = least_of(*this);
  if (exact) return least;
  const auto aligned = common_multiple(multiple_of, aligned_to);
  if (!aligned || least < *aligned) return least;
  return round_up(least, *aligned).value_or(least);
}

bool PaddingNeeds::allows(std::int64_t padded) const noexcept {
  if (size < 0 || at_least < 0 || multiple_of < 1 || padded < std::max(size, at_least)) return false;
  return padded % multiple_of == 0 && (!exact || padded == size);
}

std::vector<std::int64_t> padded_shape(std::span<const PaddingNeeds> dimensions) {
  std::vector<std::int64_t> shape;
  for (const PaddingNeeds& needs : dimensions) shape.push_back(needs.extent());
  return shape;
}

std::int64_t elements_per_line(DType dtype, std::size_t bytes) {
  if (bytes == 0 || dtype.bytes() == 0) {
    throw Error(Errc::invalid_argument, "elements_per_line: " + std::to_string(bytes) + " bytes of elements of " +
                                            std::to_string(dtype.bytes()));
  }
  const auto elements = bytes / std::gcd(bytes, dtype.bytes());
  if (elements > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) {
    throw Error(Errc::invalid_argument,
                "elements_per_line: " + std::to_string(elements) + " elements overflow 64 bits");
  }
  return static_cast<std::int64_t>(elements);
}

}  // namespace weir
