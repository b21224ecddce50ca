// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include "step.hpp"

namespace weir::test::random {

Model::Model() {
  for (const int process : {0, 1}) agents.push_back({process, true, {}, 0, false, 0, {}, {}});
}

void Model::apply(const Op& op) { Step(*this, op).take(); }

std::vector<Cell> Model::content(const Handle& handle) const {
  const Cells& cells = memories[blocks[handle.block].memory];
  return cells.get(handle.offset, handle.offset + handle.size);
}

bool Model::finished(int process, std::size_t agent) const {
  return agents[static_cast<std::size_t>(process)].now.clock.covers(agent, agents[agent].step);
}

// ---- looking up -------------------------------------------------------------------------------------------

std::size_t Model::Step::stream(std::size_t argument) const {
  const auto found = m_.streams_.find(arg(argument));
  require(found != m_.streams_.end(), "no such stream");
  const Agent& agent = m_.agents[found->second];
  require(agent.process == op_.process && !agent.dropped, "the stream is not at hand");
  return found->second;
}

Model::Handle& Model::Step::handle(std::size_t argument) const {
  const auto found = m_.handles.find(arg(argument));
  require(found != m_.handles.end() && found->second.process == op_.process, "no such buffer");
  require(!found->second.closed, "the buffer is closed");
  return found->second;
}

Model::Tensor& Model::Step::tensor(std::size_t argument) const {
  const auto found = m_.tensors.find(arg(argument));
  require(found != m_.tensors.end() && found->second.process == op_.process, "no such tensor");
  require(!found->second.imported && !found->second.deleted, "the tensor is consumed");
  return found->second;
}

Model::Resource& Model::Step::resource(std::size_t argument) const {
  const auto found = m_.resources.find(arg(argument));
  require(found != m_.resources.end() && found->second.process == op_.process, "no such resource");
  require(!found->second.forgotten, "the resource is not at hand");
  return found->second;
}

Range Model::Step::range(const Handle& handle, std::size_t offset, std::size_t bytes, bool write) const {
  require(offset <= handle.size && bytes <= handle.size - offset, "outside of the buffer");
  require(!write || !block(handle).traits.read_only, "the memory is read-only");
  return {handle.offset + offset, handle.offset + offset + bytes, write};
}

void Model::Step::require_order(const Handle& handle, const Range& range, std::size_t agent) const {
  Clock known = m_.agents[agent].now.clock;
  known.merge(m_.agents[host()].now.clock);
  auto unordered = m_.memories[block(handle).memory].unordered(range, known);
  if (!unordered.empty()) throw Undefined{"conflicting work has no order with it", std::move(unordered)};
}

// ---- doing ------------------------------------------------------------------------------------------------

// A step begins after everything that the host who puts it knows to be complete.
std::uint32_t Model::Step::advance(std::size_t agent) {
  Agent& mine = m_.agents[agent];
  mine.now.clock.merge(m_.agents[host()].now.clock);
  mine.now.clock.set(agent, ++mine.step);
  mine.past.push_back(mine.now);
  return mine.step;
}

void Model::Step::use(Block& block, std::size_t agent, std::uint32_t step) {
  block.untold.erase(agent);
  if (agent != block.home) block.uses[agent] = step;
}

void Model::Step::touch(const Handle& handle, const Range& range, std::size_t agent, bool recorded) {
  if (range.begin == range.end) return;
  const auto step = advance(agent);
  Block& mine = block(handle);
  m_.memories[mine.memory].touch(range, agent, step);
  if (m_.agents[agent].host) return;
  if (recorded) {
    use(mine, agent, step);
  } else if (agent != mine.home) {
    mine.untold[agent] = step;
  }
}

// What Buffer::order_after_uses does.
void Model::Step::follow_uses(const Block& block, std::size_t agent) {
  Agent& mine = m_.agents[agent];
  for (const auto& [user, step] : block.uses) mine.now.merge(m_.agents[user].past[step - 1]);
  mine.now.merge(Moment(m_.agents[block.home].now));
  if (block.late_uses) mine.now.may |= m_.closed_;
}

std::size_t Model::Step::allocate(std::size_t bytes, std::size_t home, const Traits& traits,
                                  std::optional<std::uint64_t> resource) {
  // Memory that was used before may make its stream wait for any use of old.
  if (resource && m_.resources.at(*resource).mode.ends_with("ordered")) m_.agents[home].now.may |= m_.closed_;
  m_.memories.emplace_back(bytes);
  m_.blocks.push_back({op_.process, m_.memories.size() - 1, home, traits, resource, {}});
  const auto index = m_.blocks.size() - 1;
  const Handle whole{op_.process, index, 0, bytes};
  touch(whole, {0, bytes, true}, home, true);
  return index;
}

// Memory must not come to an end before work that weir was not told of.
void Model::Step::require_covered(const Handle& handle, std::optional<std::size_t> closing_on,
                                  std::size_t going) const {
  const Block& mine = block(handle);
  if (mine.owners > going) return;
  for (const auto& [user, step] : mine.untold) {
    require(closing_on == user || m_.agents[host()].now.clock.covers(user, step),
            "a use that nobody was told of");
  }
  if (!mine.tensor) return;
  const Tensor& source = m_.tensors.at(*mine.tensor);
  require_covered(Handle{op_.process, source.block, 0, 0}, source.consumer);
}

void Model::Step::drop_owner(Block& block) {
  if (--block.owners > 0 || !block.tensor) return;
  // The deleter runs when the uses of the import have passed, on some thread.
  const Tensor& source = m_.tensors.at(*block.tensor);
  Block& origin = m_.blocks[source.block];
  origin.untold.erase(source.consumer);
  origin.late_uses = true;
  drop_owner(origin);
}

void Model::Step::put_bytes(const Handle& handle, std::size_t offset) {
  m_.memories[block(handle).memory].set(handle.offset + offset, bytes_of(op_));
}

}  // namespace weir::test::random
