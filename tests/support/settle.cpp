// SPDX-License-Identifier: Apache-2.0
#include "settle.hpp"

#include "stream/releases.hpp"
#include "weir/device.hpp"

namespace weir::test {

void await_releases() {
  constexpr int as_often_as_ends_follow_each_other = 4;
  for (int i = 0; i < as_often_as_ends_follow_each_other; ++i) {
    for (const Device& each : devices()) detail::drain_releases(each.state());
  }
}

}  // namespace weir::test
