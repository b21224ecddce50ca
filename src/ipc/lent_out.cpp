// SPDX-License-Identifier: Apache-2.0
#include "ipc/lent_out.hpp"

#include "ipc/channel/watcher.hpp"
#include "ipc/leases.hpp"
#include "stream/release_queue.hpp"

namespace weir::detail {

bool settle_lent_out() {
  const bool leases = settle_leases();
  const bool channels = !in_release() && channel::settle_channels();
  return leases || channels;
}

}  // namespace weir::detail
