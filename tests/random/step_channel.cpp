// SPDX-License-Identifier: Apache-2.0
// Steps over channels, and the end of a process.
#include <algorithm>
#include <utility>

#include "step.hpp"

namespace weir::test::random {
namespace {

/// Whether a process that got such memory from a channel can lend it on.
bool passes_on(const Traits& traits) { return traits.info.kind == MemoryKind::shared; }

}  // namespace

Model::Channel& Model::Step::channel(std::size_t argument) const {
  const auto found = m_.channels.find(arg(argument));
  require(found != m_.channels.end(), "no such channel");
  require(!found->second.ends[host()].hung, "the channel is closed");
  return found->second;
}

Model::Shipment& Model::Step::next_shipment(std::size_t argument) const {
  const auto found = m_.shipments.find(arg(argument));
  require(found != m_.shipments.end() && found->second.to == op_.process, "no such parcel");
  Shipment& shipment = found->second;
  const Channel::End& end = m_.channels.at(shipment.channel).ends[host()];
  require(!end.hung && !end.coming.empty() && end.coming.front() == arg(argument), "it is not the next one");
  return shipment;
}

// What is packed has owners of its own, which end with it.
void Model::Step::require_covered(const std::vector<std::uint64_t>& packed) const {
  std::map<std::size_t, std::size_t> owners;
  for (const std::uint64_t number : packed) ++owners[m_.shipments.at(number).block];
  for (const auto& [index, going] : owners) require_covered(Handle{op_.process, index, 0, 0}, {}, going);
}

void Model::Step::connect() {
  require_new(m_.channels);
  require(!m_.alone, "the other process is dead");
  require(arg(1) > 0, "no window");
  m_.channels[arg(0)].window = arg(1);
  // One of them gets its end from the other.
  m_.agents[1 - host()].now.clock.merge(m_.agents[host()].now.clock);
}

void Model::Step::pack() {
  require_new(m_.shipments);
  Channel& over = channel(1);
  require(over.open(), "the other end is closed");
  const Handle& of = handle(2);
  Block& mine = block(of);
  const bool shared = mine.traits.external ? passes_on(mine.traits) && mine.borrowed : mine.traits.exportable;
  require(shared, "it cannot be lent");
  require(of.size > 0, "zero bytes have no memory to share");
  const bool read_only = op_.words[0] == "read_only";
  require(!read_only || mine.traits.device.backend() != "vulkan", "nobody lends Vulkan's memory for reading alone");
  ++mine.owners;
  Shipment packed{{1 - op_.process, mine.memory, of.offset, of.size, mine.traits, {}, {}}, arg(1), arg(3), of.block};
  packed.traits.exportable = false;
  packed.traits.external = true;
  packed.traits.read_only = packed.traits.read_only || read_only;
  over.ends[host()].packed.push_back(arg(0));
  m_.shipments.emplace(arg(0), std::move(packed));
}

void Model::Step::post() {
  Channel& over = channel(0);
  Channel::End& mine = over.ends[host()];
  Channel::End& theirs = over.ends[1 - host()];
  require(over.open(), "the other end is closed");
  require(!mine.packed.empty() && mine.packed.size() <= over.room(1 - op_.process), "no room");
  const auto agent = stream(1);
  require_covered(mine.packed);
  mine.posted = advance(host());
  const Moment before = m_.agents[agent].now;
  Moment all = before;
  for (const std::uint64_t number : mine.packed) {
    Shipment& shipment = m_.shipments.at(number);
    m_.agents[agent].now = before;
    follow_uses(m_.blocks[shipment.block], agent);
    shipment.ready = m_.agents[agent].now;
    shipment.sender = m_.agents[host()].now.clock;
    all.merge(shipment.ready);
  }
  m_.agents[agent].now = all;
  for (const std::uint64_t number : mine.packed) {
    Shipment& shipment = m_.shipments.at(number);
    shipment.ready.may |= all.must | all.may;  // one point may stand for the whole batch
    drop_owner(m_.blocks[shipment.block]);
    theirs.coming.push_back(number);
  }
  mine.packed.clear();
}

void Model::Step::take_shipment() {
  require_new(m_.handles);
  Shipment& shipment = next_shipment(1);
  require(!shipment.unsure, "the sender died before its work");
  const auto home = stream(2);
  m_.channels.at(shipment.channel).ends[host()].coming.pop_front();
  shipment.received = true;
  m_.agents[host()].now.clock.merge(shipment.sender);
  m_.agents[home].now.merge(shipment.ready);
  m_.blocks.push_back({op_.process, shipment.memory, home, shipment.traits, {}, {}});
  m_.blocks.back().borrowed = true;
  m_.handles.emplace(arg(0), Handle{op_.process, m_.blocks.size() - 1, shipment.offset, shipment.size});
}

void Model::Step::miss() {
  Shipment& shipment = next_shipment(0);
  require(shipment.never, "it may come");
  (void)stream(1);
  m_.channels.at(shipment.channel).ends[host()].coming.pop_front();
}

// A process that hangs up, or dies, must know of everything that the other one has sent.
void Model::Step::require_arrived(const Channel& over) const {
  const bool knows = m_.agents[host()].now.clock.of(1 - host()) >= over.ends[1 - host()].posted;
  require(knows, "the other process may still be sending");
}

void Model::Step::hang() {
  Channel& over = channel(0);
  Channel::End& mine = over.ends[host()];
  require_arrived(over);
  require_covered(mine.packed);
  for (const std::uint64_t number : mine.packed) drop_owner(m_.blocks[m_.shipments.at(number).block]);
  mine = {.hung = true};
}

// The other process's streams must not wait for what never comes, or may not come: they would be lost.
void Model::Step::require_independence() const {
  const Clock& done = m_.agents[host()].now.clock;
  Gates gates = 0;
  for (const auto& [number, gate] : m_.gates) {
    if (gate.process == op_.process && !gate.open) gates |= Gates{1} << number;
  }
  std::vector<std::size_t> needed;
  for (const Agent& agent : m_.agents) {
    if (agent.process == op_.process) continue;
    require((m_.behind(agent) & gates) == 0, "the other process waits behind a gate of this one");
    for (std::size_t i = 0; i < m_.agents.size(); ++i) {
      const bool waits = m_.agents[i].process == op_.process && agent.now.clock.of(i) > done.of(i);
      if (waits && std::find(needed.begin(), needed.end(), i) == needed.end()) needed.push_back(i);
    }
  }
  if (!needed.empty()) throw Undefined{"the other process needs its work", std::move(needed)};
}

void Model::Step::die() {
  require(op_.process == 1, "process 0 watches");
  require_independence();
  const Clock done = m_.agents[host()].now.clock;
  for (const auto& [number, over] : m_.channels) {
    if (over.open()) require_arrived(over);
  }
  for (const auto& [number, parcel] : m_.parcels) {
    require(parcel.to == 0 || done.of(0) >= parcel.sender.of(0), "process 0 may still be sending");
  }
  Gates gates = 0;
  for (auto& [number, gate] : m_.gates) {
    if (gate.process == 1 && !std::exchange(gate.open, true)) gates |= Gates{1} << number;
  }
  const auto look = [&](Parcel& parcel) {
    if (parcel.to != 0 || parcel.received) return;
    // Also what waited for work of process 0 alone: it is process 1 that tells of it.
    for (std::size_t i = 0; i < m_.agents.size(); ++i) {
      if (parcel.ready.clock.of(i) > done.of(i)) parcel.unsure = true;
    }
    if (((parcel.ready.must | parcel.ready.may) & gates) != 0) parcel.unsure = true;
  };
  for (auto& [number, parcel] : m_.parcels) look(parcel);
  for (auto& [number, shipment] : m_.shipments) {
    look(shipment);
    shipment.never = (shipment.ready.must & gates) != 0;
  }
  m_.closed_ &= ~gates;
  for (std::size_t i = 0; i < m_.agents.size(); ++i) {
    if (m_.agents[i].process != 1) continue;
    for (Cells& memory : m_.memories) memory.lose(i, done.of(i));
    m_.agents[0].now.clock.set(i, m_.agents[i].step);
  }
  for (auto& [number, handle] : m_.handles) handle.closed = handle.closed || handle.process == 1;
  for (auto& [number, over] : m_.channels) over.ends[1] = {.hung = true};
  m_.alone = true;
}

}  // namespace weir::test::random
