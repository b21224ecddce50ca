// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that goes only between processes of one user.

#include "weir/spi/device_state.hpp"

namespace weir::detail {

/// Throw permission_denied, in the name of `operation`, if the driver of the device believes what it finds inside a
/// shared file, and the process at the other end of `socket` is another user's, or the kernel does not say whose. For a
/// pair of sockets, the kernel says who made it.
void check_one_user(const char* operation, const spi::DeviceState& device, int socket);

}  // namespace weir::detail
