// SPDX-License-Identifier: Apache-2.0
#include "copy/plan.hpp"

namespace weir::detail {

CopyPlan plan_copy(CopyEnd source, CopyEnd destination, bool elsewhere) noexcept {
  CopyPlan plan;
  const auto add = [&plan](CopyStep step) { plan.steps[plan.count++] = step; };
  if (source.reached && destination.reached) {
    plan.path = CopyPath::direct;
    add(CopyStep::copy);
    return plan;
  }
  const bool by_host = source.host && destination.host;
  if (elsewhere && !by_host) {
    plan.path = CopyPath::elsewhere;
    add(CopyStep::copy);
    return plan;
  }
  plan.path = by_host ? CopyPath::host : CopyPath::staged;
  if (!source.host) {
    add(CopyStep::read);
    plan.read_on_stream = source.reached;
  }
  add(CopyStep::move);
  if (!destination.host) {
    add(CopyStep::write);
    plan.write_on_stream = destination.reached;
  }
  return plan;
}

}  // namespace weir::detail
