// SPDX-License-Identifier: Apache-2.0
#include "draft.hpp"

namespace weir::test::random {

bool Draft::offer(int process, Verb verb, std::vector<Number> args, std::vector<std::string> words,
                  std::optional<Number> stream) {
  const Op op{process, verb, std::move(args), std::move(words)};
  for (int i = 0; i < 2; ++i) {
    try {
      model.apply(op);
      program.push_back(op);
      return true;
    } catch (const Undefined& undefined) {
      if (i > 0 || undefined.unordered.empty() || !random.chance(85)) return false;
      for (const std::size_t agent : undefined.unordered) {
        if (!order(process, agent, stream)) return false;
      }
    }
  }
  return false;
}

// Order `stream`, or the process's host, after everything on the agent.
bool Draft::order(int process, std::size_t agent, std::optional<Number> stream) {
  const Model::Agent& before = model.agents[agent];
  if (before.process != process) {
    if (!before.host && (before.dropped || !offer(before.process, Verb::sync, {before.stream}))) return false;
    return offer(process, Verb::meet, {});
  }
  if (before.host || before.dropped) return false;
  if (!stream) return offer(process, Verb::sync, {before.stream});
  const Number event = fresh();
  return offer(process, Verb::record, {event, before.stream}) && offer(process, Verb::wait, {*stream, event});
}

std::vector<Number> Draft::owners(std::size_t block) const {
  std::vector<Number> found;
  for (const auto& [number, handle] : model.handles) {
    if (handle.block == block && !handle.closed) found.push_back(number);
  }
  return found;
}

}  // namespace weir::test::random
