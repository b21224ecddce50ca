// SPDX-License-Identifier: Apache-2.0
// Who uses memory of a resource, and the wait for it.
#include "weir/leases.hpp"

#include "ipc/channel/deadline.hpp"
#include "memory/lent.hpp"
#include "memory/lent_returns.hpp"
#include "weir/error.hpp"

namespace weir {

std::vector<ipc::LeasedTo> ipc::leased_to(const MemoryResource& resource) {
  std::vector<LeasedTo> all;
  for (const detail::LentTo& one : detail::lent_of(resource).to)
    all.push_back({one.process, one.buffers, one.bytes, one.closed_buffers, one.closed_bytes});
  return all;
}

bool ipc::wait_for_returns(const MemoryResource& resource, std::size_t most_bytes, std::chrono::milliseconds timeout) {
  using detail::channel::Clock;
  if (!detail::may_wait_for_returns())
    throw Error(Errc::invalid_argument,
                "ipc::wait_for_returns: a thread of weir, on which memory comes back, cannot wait "
                "for that; use a thread of your own");
  const detail::channel::Deadline deadline(timeout);
  (void)detail::settle_lent();  // what has been given back already is there
  for (;;) {
    const auto seen = detail::lent_returns();
    if (detail::lent_of(resource).bytes <= most_bytes && !detail::some_return()) return true;
    const auto now = Clock::now();
    if (!deadline.endless() && now >= deadline.at()) return false;
    detail::wait_for_return(seen, deadline.endless() ? Clock::time_point::max() : deadline.at());
  }
}

}  // namespace weir
