// SPDX-License-Identifier: Apache-2.0
#include "ipc/lent_out.hpp"

#include "ipc/channel/links.hpp"
#include "ipc/channel/watcher.hpp"
#include "ipc/leases.hpp"
#include "stream/release_queue.hpp"

namespace weir::detail {
namespace {

bool settle() {
  const bool leases = settle_leases();
  const bool channels = !in_release() && channel::settle_channels();
  return leases || channels;
}

void list(LentList& lent) {
  list_leases(lent);
  channel::list_lent(lent);
}

}  // namespace

constinit const LentAnswers lent_out{&settle, &list};

}  // namespace weir::detail
