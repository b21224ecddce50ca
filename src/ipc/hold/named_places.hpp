// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ipc/hold/messages.hpp"

namespace weir::detail::hold {

/// The places of the set before that a set names: each once, so that what a set costs is what its segments cost.
class NamedPlaces {
 public:
  /// Another set begins. The one before has `places`.
  void begin(std::size_t places) { named_.assign(places, false); }
  /// Throws corrupt_descriptor for a place that there is not, and for one that was named already.
  void name(std::uint32_t place) {
    if (place >= named_.size())
      violated("segment " + std::to_string(place) + " of " + std::to_string(named_.size()) + " that were told of");
    if (named_[place]) violated("segment " + std::to_string(place) + " twice in a set");
    named_[place] = true;
  }

 private:
  std::vector<bool> named_;
};

}  // namespace weir::detail::hold
