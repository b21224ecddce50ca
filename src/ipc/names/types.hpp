// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir::detail::names {

/// The first four bytes of a packet.
enum Type : std::uint32_t {
  hello = 1,
  list_names = 2,
  get_tensor = 3,
  list_guests = 4,
  welcome = 17,
  refused = 18,
  names = 19,
  got_tensor = 20,
  guests = 21,
  news = 22
};

}  // namespace weir::detail::names
