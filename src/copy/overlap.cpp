// SPDX-License-Identifier: Apache-2.0
// The distance between row i on one side and row j on the other is a sum of steps, each taken a number of times that is
// known but for its range. Two rows share bytes where such a sum is nearer to 0 than a row is long.
#include "copy/overlap.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace weir::detail {
namespace {

using Wide = __int128;  // sums of distances, each of which fits into 64 bits

struct Term {
  std::int64_t step;         // > 0
  std::int64_t least, most;  // how often it may be taken
  Wide low = 0, high = 0;    // sums of this term and the later ones
  std::int64_t divisor = 0;  // of the steps of this term and the later ones
};

Wide floor_of(Wide dividend, std::int64_t divisor) {
  const Wide quotient = dividend / divisor;
  return dividend % divisor < 0 ? quotient - 1 : quotient;
}

class Search {
 public:
  // `near`: sums of -near … near are wanted.
  Search(std::vector<Term> terms, std::int64_t near) : terms_(std::move(terms)), near_(near) {
    std::ranges::sort(terms_, std::greater{}, &Term::step);
    Term last{};
    for (std::size_t i = terms_.size(); i-- > 0;) {
      Term& term = terms_[i];
      term.low = last.low + Wide(term.least) * term.step;
      term.high = last.high + Wide(term.most) * term.step;
      term.divisor = std::gcd(last.divisor, term.step);
      last = term;
    }
  }

  [[nodiscard]] Overlap from(Wide sum) {
    const bool found = finds(0, sum);
    return found ? Overlap::yes : looks_ == 0 ? Overlap::unknown : Overlap::no;
  }

 private:
  bool finds(std::size_t index, Wide sum) {
    if (index == terms_.size()) return -near_ <= sum && sum <= near_;
    const Term& term = terms_[index];
    if (sum + term.low > near_ || sum + term.high < -near_) return false;
    const Wide beyond = sum - floor_of(sum, term.divisor) * term.divisor;  // the nearest sums that the steps can reach
    if (beyond > near_ && term.divisor - beyond > near_) return false;
    const Wide low = term.low - Wide(term.least) * term.step, high = term.high - Wide(term.most) * term.step;
    const Wide first = std::max<Wide>(term.least, -floor_of(near_ + sum + high, term.step));
    const Wide last = std::min<Wide>(term.most, floor_of(near_ - sum - low, term.step));
    for (Wide times = first; times <= last; ++times) {
      if (looks_ == 0 || --looks_ == 0) return false;
      if (finds(index + 1, sum + times * term.step)) return true;
    }
    return false;
  }

  std::vector<Term> terms_;
  std::int64_t near_;
  std::size_t looks_ = 100'000;
};

void add(std::vector<Term>& terms, std::int64_t step, std::int64_t least, std::int64_t most) {
  if (step == 0 || least == most) return;
  const auto same = std::ranges::find(terms, step, &Term::step);
  if (same == terms.end()) {
    terms.push_back({step, least, most});
  } else {
    same->least += least;
    same->most += most;
  }
}

}  // namespace

Overlap overlap_of_sides(const PlacedRegion& placed, std::int64_t distance) {
  const Range written = written_range(placed), read = read_range(placed);
  std::vector<Term> terms;
  for (const spi::RegionDimension& dimension : placed.region.dimensions) {
    const auto most = static_cast<std::int64_t>(dimension.count - 1);
    add(terms, dimension.dst_step, -most, 0);
    add(terms, std::abs(dimension.src_step), 0, most);
  }
  const Wide between =
      Wide(distance) + static_cast<std::int64_t>(read.begin) - static_cast<std::int64_t>(written.begin);
  return Search(std::move(terms), static_cast<std::int64_t>(placed.region.row_bytes) - 1).from(between);
}

// Two elements differ along some dimension first, and then it does not matter which of them comes before the other.
Overlap overlap_of_elements(std::size_t element_bytes, std::span<const std::int64_t> shape,
                            std::span<const std::int64_t> strides) {
  struct Dimension {
    std::int64_t step, most;
  };
  std::vector<Dimension> all;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) all.push_back({std::abs(strides[i]) * static_cast<std::int64_t>(element_bytes), shape[i] - 1});
  }
  std::ranges::sort(all, std::less{}, &Dimension::step);
  auto inner = static_cast<Wide>(element_bytes);
  const bool nested = std::ranges::all_of(all, [&](const Dimension& dimension) {
    const bool beyond = dimension.step >= inner;
    inner += Wide(dimension.step) * dimension.most;
    return beyond;
  });
  if (nested) return Overlap::no;
  auto found = Overlap::no;
  std::vector<Term> later;
  for (const auto& [step, most] : all) {
    if (step == 0) return Overlap::yes;
    auto terms = later;
    terms.push_back({step, 1, most});  // not added to an equal step, which is another dimension
    const auto here = Search(std::move(terms), static_cast<std::int64_t>(element_bytes) - 1).from(0);
    if (here == Overlap::yes) return here;
    if (here == Overlap::unknown) found = here;
    later.push_back({step, -most, most});
  }
  return found;
}

}  // namespace weir::detail
