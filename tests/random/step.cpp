// SPDX-License-Identifier: Apache-2.0
#include "step.hpp"

#include "memory.hpp"

namespace weir::test::random {
namespace {

/// Alignment at which programs allocate, at most.
constexpr std::uint64_t largest_alignment = 1U << 16U;
/// Bytes of one buffer, at most.
constexpr std::uint64_t largest_buffer = std::uint64_t{32} << 20U;

std::optional<Device> find_device(const std::string& id) {
  for (const Device& device : devices()) {
    if (device.id() == id) return device;
  }
  return {};
}

Traits of_default_kind(const Device& device) { return {device, *device.find(device.default_kind())}; }

// DLPack's numbers for memory that has no device of its own.
constexpr std::int32_t cpu = 1, cuda_host = 3, cuda_managed = 13, vulkan_only = 7;

/// How an importer sees memory that was exported with this label.
Traits relabelled(const Traits& exported) {
  Traits traits = exported;
  const auto label = exported.info.dlpack_device;
  if (label == cpu) traits.device = host_device();
  if (label == cuda_host || label == cuda_managed) traits.device = *find_device("cuda:0");
  traits.exportable = false;
  traits.external = true;
  return traits;
}

}  // namespace

void Model::Step::take() {
  require(op_.process == 0 || !m_.alone, "the process is dead");
  switch (op_.verb) {
    case Verb::stream: return make_stream();
    case Verb::resource: return make_resource();
    case Verb::alloc: return alloc();
    case Verb::write:
    case Verb::read:
    case Verb::fill: return access_on_stream();
    case Verb::copy: return copy();
    case Verb::assign: return assign();
    case Verb::clone: return clone();
    case Verb::share: return slice(true);
    case Verb::slice: return slice(false);
    case Verb::poke:
    case Verb::peek: return access_by_host();
    case Verb::call_write:
    case Verb::call_read: return call();
    case Verb::close: return close(false);
    case Verb::close_on: return close(true);
    case Verb::record: return record();
    case Verb::wait: return wait();
    case Verb::sync: return sync();
    case Verb::await: return await();
    case Verb::probe: return void(stream(0));
    case Verb::ask:
      return require(m_.events.count(arg(0)) && m_.events.at(arg(0)).process == op_.process, "no event");
    case Verb::gate:
    case Verb::hold:
    case Verb::open: return gate();
    case Verb::drop: m_.agents[stream(0)].dropped = true; return;
    case Verb::forget: resource(0).forgotten = true; return;
    case Verb::trim: return trim();
    case Verb::export_tensor: return export_tensor();
    case Verb::import_tensor: return import_tensor();
    case Verb::delete_tensor: return delete_tensor();
    case Verb::look: return look();
    case Verb::send: return send();
    case Verb::receive: return receive();
    case Verb::connect: return connect();
    case Verb::pack: return pack();
    case Verb::post: return post();
    case Verb::take: return take_shipment();
    case Verb::miss: return miss();
    case Verb::hang: return hang();
    case Verb::die: return die();
    case Verb::meet:
      require(!m_.alone, "the other process is dead");
      m_.agents[0].now.merge(Moment(m_.agents[1].now));
      m_.agents[1].now.merge(Moment(m_.agents[0].now));
      return;
    case Verb::lose: return;
  }
}

void Model::Step::make_stream() {
  require_new(m_.streams_);
  const auto device = find_device(op_.words[0]);
  require(device.has_value(), "no such device");
  m_.streams_[arg(0)] = m_.agents.size();
  m_.agents.push_back({op_.process, false, device, arg(0), false, 0, {}, {}});
}

void Model::Step::make_resource() {
  require_new(m_.resources);
  const bool exportable = op_.words[2] == "exportable";
  const auto device = find_device(op_.words[0]);
  require(device.has_value(), "no such device");
  for (const KindInfo& info : device->kinds()) {
    if (to_string(info.kind) != op_.words[1]) continue;
    require(!exportable || info.exportable, "that kind is never exported");
    // A peer may still hold what was exported; leases are not the business of Recycling.
    require(!exportable || op_.words[3] == "fresh" || op_.words[3].starts_with("pool_"),
            "exported memory is handed out again by pools alone");
    m_.resources.emplace(arg(0), Resource{op_.process, {*device, info, exportable, false}, op_.words[3]});
    return;
  }
  require(false, "no such kind of memory");
}

void Model::Step::alloc() {
  require_new(m_.handles);
  const Resource& from = resource(1);
  const auto home = stream(4);
  require(arg(2) <= largest_buffer, "the buffer is too large");
  require(arg(3) > 0 && (arg(3) & (arg(3) - 1)) == 0 && arg(3) <= largest_alignment,
          "an alignment of its own");
  const auto made = allocate(arg(2), home, from.traits, arg(1));
  m_.handles.emplace(arg(0), Handle{op_.process, made, 0, arg(2)});
}

void Model::Step::access_on_stream() {
  const Handle& target = handle(0);
  const auto agent = stream(op_.args.size() - 1);
  const bool write = op_.verb != Verb::read;
  if (op_.verb == Verb::fill) {
    require(arg(3) == 1 || arg(3) == 2 || arg(3) == 4 || arg(3) == 8, "a pattern of another size");
    require(arg(2) % arg(3) == 0, "part of a pattern");
  }
  const Range place = range(target, arg(1), arg(2), write);
  require_order(target, place, agent);
  touch(target, place, agent, true);
  if (write) return put_bytes(target, arg(1));
  advance(agent);  // the bytes arrive behind the use of the memory
  m_.seen_ = m_.memories[block(target).memory].get(place.begin, place.end);
}

void Model::Step::copy() { copy_between(handle(0), arg(1), handle(2), arg(3), arg(4), stream(5)); }

void Model::Step::assign() {
  const Handle& to = handle(0);
  const Handle& from = handle(1);
  require(to.size == from.size, "the sizes differ");
  copy_between(to, 0, from, 0, to.size, stream(2));
}

// Two steps: what follows the uses of the source alone does not follow the write.
void Model::Step::copy_between(const Handle& to, std::size_t to_offset, const Handle& from,
                               std::size_t from_offset, std::size_t bytes, std::size_t agent) {
  const Range source = range(from, from_offset, bytes, false);
  const Range target = range(to, to_offset, bytes, true);
  const bool apart =
      block(to).memory != block(from).memory || source.end <= target.begin || target.end <= source.begin;
  require(apart, "the ranges overlap");
  require_order(from, source, agent);
  require_order(to, target, agent);
  touch(from, source, agent, true);
  touch(to, target, agent, true);
  const auto values = m_.memories[block(from).memory].get(source.begin, source.end);
  m_.memories[block(to).memory].set(target.begin, values);
}

void Model::Step::clone() {
  require_new(m_.handles);
  const Handle from = handle(1);
  const auto agent = stream(2);
  require_order(from, range(from, 0, from.size, false), agent);
  const Block source = block(from);
  const Traits& traits = source.traits;
  const auto made =
      allocate(from.size, agent, traits.external ? of_default_kind(traits.device) : traits, source.resource);
  const Handle to{op_.process, made, 0, from.size};
  copy_between(to, 0, from, 0, from.size, agent);
  m_.handles.emplace(arg(0), to);
}

void Model::Step::slice(bool whole) {
  require_new(m_.handles);
  const Handle of = handle(1);
  const Range part = whole ? range(of, 0, of.size, false) : range(of, arg(2), arg(3), false);
  ++block(of).owners;
  m_.handles.emplace(arg(0), Handle{op_.process, of.block, part.begin, part.end - part.begin});
}

void Model::Step::access_by_host() {
  const Handle& target = handle(0);
  require(block(target).traits.info.host_accessible, "the host has no address of it");
  const bool write = op_.verb == Verb::poke;
  const Range place = range(target, arg(1), arg(2), write);
  require_order(target, place, host());
  touch(target, place, host(), false);
  if (write) return put_bytes(target, arg(1));
  m_.seen_ = m_.memories[block(target).memory].get(place.begin, place.end);
}

void Model::Step::call() {
  const Handle& target = handle(0);
  const auto agent = stream(op_.args.size() - 1);
  require(block(target).traits.info.host_accessible, "the host has no address of it");
  const bool write = op_.verb == Verb::call_write;
  const Range place = range(target, arg(1), arg(2), write);
  require(place.begin != place.end, "nothing to do");
  require_order(target, place, agent);
  touch(target, place, agent, op_.words[0] == "told");
  if (write) return put_bytes(target, arg(1));
  advance(agent);
  m_.seen_ = m_.memories[block(target).memory].get(place.begin, place.end);
}

void Model::Step::close(bool ordered) {
  Handle& mine = handle(0);
  std::optional<std::size_t> on;
  if (ordered) on = stream(1);
  require_covered(mine, on);
  if (on) use(block(mine), *on, advance(*on));
  mine.closed = true;
  drop_owner(block(mine));
}

void Model::Step::record() {
  require_new(m_.events);
  m_.events.emplace(arg(0), Point{op_.process, m_.agents[stream(1)].now});
}

void Model::Step::wait() {
  const auto agent = stream(0);
  const auto event = m_.events.find(arg(1));
  require(event != m_.events.end() && event->second.process == op_.process, "no such event");
  m_.agents[agent].now.merge(event->second.moment);
}

void Model::Step::sync() {
  const Agent& agent = m_.agents[stream(0)];
  require(m_.behind(agent) == 0, "the stream may stand behind a closed gate");
  m_.agents[host()].now.clock.merge(agent.now.clock);
}

void Model::Step::await() {
  const auto event = m_.events.find(arg(0));
  require(event != m_.events.end() && event->second.process == op_.process, "no such event");
  const Moment& moment = event->second.moment;
  require(((moment.must | moment.may) & m_.closed_) == 0, "the event may stand behind a closed gate");
  m_.agents[host()].now.clock.merge(moment.clock);
}

void Model::Step::gate() {
  if (op_.verb == Verb::gate) {
    require_new(m_.gates);
    require(arg(0) < most_gates, "too many gates");
    m_.gates.emplace(arg(0), Gate{op_.process});
    m_.closed_ |= Gates{1} << arg(0);
    return;
  }
  const auto number = arg(op_.verb == Verb::hold ? 1 : 0);
  const auto gate = m_.gates.find(number);
  require(gate != m_.gates.end() && gate->second.process == op_.process && !gate->second.open,
          "no such gate");
  if (op_.verb == Verb::hold) {
    Moment& now = m_.agents[stream(0)].now;
    now.must |= Gates{1} << number;
    return;
  }
  gate->second.open = true;
  m_.closed_ &= ~(Gates{1} << number);
}

// Waits for everything that is on its way back to the device, whoever used it.
void Model::Step::trim() {
  (void)resource(0);
  require(m_.closed_ == 0, "a gate is closed");
}

void Model::Step::export_tensor() {
  require_new(m_.tensors);
  const Handle& of = handle(1);
  const auto consumer = stream(2);
  Block& mine = block(of);
  require(mine.traits.info.dlpack_device != vulkan_only, "nobody else can address it");
  follow_uses(mine, consumer);
  ++mine.owners;
  m_.tensors.emplace(arg(0), Tensor{op_.process, of.block, of.offset, of.size, consumer});
}

void Model::Step::import_tensor() {
  require_new(m_.handles);
  Tensor& from = tensor(1);
  const auto home = stream(2);
  from.imported = true;
  const Block origin = m_.blocks[from.block];
  m_.blocks.push_back({op_.process, origin.memory, home, relabelled(origin.traits), {}, arg(1)});
  m_.handles.emplace(arg(0), Handle{op_.process, m_.blocks.size() - 1, from.offset, from.size});
}

void Model::Step::delete_tensor() {
  Tensor& mine = tensor(0);
  require_covered(Handle{op_.process, mine.block, 0, 0}, mine.consumer);
  mine.deleted = true;
  Block& origin = m_.blocks[mine.block];
  use(origin, mine.consumer, advance(mine.consumer));
  drop_owner(origin);
}

void Model::Step::look() {
  const Tensor& through = tensor(0);
  Block& origin = m_.blocks[through.block];
  require(origin.traits.info.host_accessible, "the host has no address of it");
  const Handle as{op_.process, through.block, through.offset, through.size};
  const Range place = range(as, arg(1), arg(2), false);
  require(place.begin != place.end, "nothing to do");
  require_order(as, place, through.consumer);
  touch(as, place, through.consumer, false);
  advance(through.consumer);
  m_.seen_ = m_.memories[origin.memory].get(place.begin, place.end);
}

void Model::Step::send() {
  require_new(m_.parcels);
  const Handle& of = handle(1);
  const auto agent = stream(2);
  const Block& mine = block(of);
  require(mine.traits.exportable && !mine.traits.external, "memory of its resource is not exportable");
  require(of.size > 0, "zero bytes have no memory to share");
  require(arg(3) < (m_.alone ? 1 : 2), "no such process");
  follow_uses(mine, agent);
  Traits traits = mine.traits;
  traits.exportable = false;
  traits.external = true;
  advance(host());
  m_.parcels.emplace(arg(0), Parcel{static_cast<int>(arg(3)), mine.memory, of.offset, of.size, traits,
                                    m_.agents[agent].now, m_.agents[host()].now.clock});
}

void Model::Step::receive() {
  require_new(m_.handles);
  const auto found = m_.parcels.find(arg(1));
  require(found != m_.parcels.end() && found->second.to == op_.process && !found->second.received,
          "no such parcel");
  require(!found->second.unsure, "the sender died before its work");
  const auto home = stream(2);
  Parcel& parcel = found->second;
  parcel.received = true;
  m_.agents[host()].now.clock.merge(parcel.sender);
  m_.agents[home].now.merge(parcel.ready);
  m_.blocks.push_back({op_.process, parcel.memory, home, parcel.traits, {}, {}});
  m_.handles.emplace(arg(0), Handle{op_.process, m_.blocks.size() - 1, parcel.offset, parcel.size});
}

}  // namespace weir::test::random
