// SPDX-License-Identifier: Apache-2.0
#include "channel_writer.hpp"

namespace weir::test::random {

void ChannelWriter::step(int process) {
  const auto parcel = next_for(process);
  if (parcel && random_.chance(50)) return take(process, *parcel);
  if (model_.alone) return;
  auto channel = some_open();
  if (!channel || random_.chance(4)) {
    static const std::vector<std::size_t> windows{1, 4, 16, 256};
    channel = draft_.fresh();
    if (!draft_.offer(process, Verb::connect, {*channel, random_.pick(windows)})) return;
  } else if (random_.chance(4)) {
    const auto hang = [&] { return draft_.offer(process, Verb::hang, {*channel}); };
    if (hang() || (draft_.offer(process, Verb::meet, {}) && hang())) reuse(random_.chance(50) ? 0 : 1, *channel);
    return;
  }
  send(process, *channel, {});
}

void ChannelWriter::die() {
  if (random_.chance(60)) leave_undone();
  const auto end = [&] { return draft_.offer(1, Verb::die, {}); };
  if (!end() && !(draft_.offer(1, Verb::meet, {}) && end())) return;
  // What cannot come any more, and what can.
  for (const auto& [number, channel] : model_.channels) {
    while (!channel.ends[0].hung && !channel.ends[0].coming.empty()) {
      const Number next = channel.ends[0].coming.front();
      const auto stream = draft_.some_stream(0);
      if (!stream) return;
      if (!draft_.offer(0, Verb::miss, {next, *stream}) &&
          !draft_.offer(0, Verb::take, {draft_.fresh(), next, *stream}))
        break;
    }
  }
}

/// Process 1 sends memory behind work that it will not do.
void ChannelWriter::leave_undone() {
  const auto stream = draft_.free_stream(1);
  const auto gate = draft_.new_gate(1);
  const Number resource = draft_.fresh(), buffer = draft_.fresh(), channel = draft_.fresh();
  if (!stream || !gate || !draft_.offer(1, Verb::hold, {*stream, *gate})) return;
  draft_.offer(1, Verb::resource, {resource}, {"host:0", "shared", "exportable", "fresh"});
  draft_.offer(1, Verb::alloc, {buffer, resource, random_.between(1, 5000), 256, *stream});
  draft_.put(1, buffer, {0, draft_.handle(buffer).size}, *stream);
  if (draft_.offer(1, Verb::connect, {channel, 4})) send(1, channel, stream);
}

std::optional<Number> ChannelWriter::some_open() {
  return draft_.some(model_.channels, [](const Model::Channel& channel) { return channel.open(); });
}

/// Parcel that the process can take.
std::optional<Number> ChannelWriter::next_for(int process) {
  const auto mine = static_cast<std::size_t>(process);
  const auto channel = draft_.some(model_.channels, [&](const Model::Channel& one) {
    return !one.ends[mine].hung && !one.ends[mine].coming.empty();
  });
  if (!channel) return {};
  return model_.channels.at(*channel).ends[mine].coming.front();
}

bool ChannelWriter::can_be_lent(int process, const Model::Handle& handle) const {
  const Model::Block& block = model_.blocks[handle.block];
  return handle.process == process && !handle.closed && handle.size > 0 && (block.borrowed || block.traits.exportable);
}

/// Send what is packed, and some more, on `on` or some stream.
void ChannelWriter::send(int process, Number channel, std::optional<Number> on) {
  auto stream = on;
  if (!stream && random_.chance(50)) stream = draft_.held_stream(process);
  if (!stream) stream = draft_.some_stream(process);
  if (!stream) return;
  for (std::size_t left = random_.chance(60) ? 1 : random_.between(2, 5); left > 0; --left) {
    const auto buffer =
        draft_.some(model_.handles, [&](const Model::Handle& handle) { return can_be_lent(process, handle); });
    if (!buffer) return;
    if (random_.chance(50)) {
      draft_.put(process, *buffer, draft_.some_part(draft_.handle(*buffer).size), *stream);
    }
    const bool read_only = draft_.block(*buffer).traits.device.backend() != "vulkan" && random_.chance(35);
    draft_.offer(process, Verb::pack, {draft_.fresh(), channel, *buffer, draft_.fresh()},
                 {read_only ? "read_only" : "writable"});
    if (random_.chance(40)) draft_.offer(process, Verb::close, {*buffer});
  }
  if (!draft_.offer(process, Verb::post, {channel, *stream})) return;
  const int to = 1 - process;
  while (!on && random_.chance(60)) {
    const auto parcel = next_for(to);
    if (!parcel) return;
    take(to, *parcel);
  }
  if (random_.chance(25)) reuse(process, channel);
}

/// End the life of memory that was lent over the channel, and ask for as much, which must not be the same.
void ChannelWriter::reuse(int process, Number channel) {
  const auto parcel = draft_.some(model_.shipments, [&](const Model::Shipment& one) {
    return one.channel == channel && one.to != process && model_.blocks[one.block].resource;
  });
  if (!parcel || (process == 1 && model_.alone)) return;
  const std::size_t index = model_.shipments.at(*parcel).block;
  const Number resource = *model_.blocks[index].resource;
  if (model_.resources.at(resource).forgotten) return;
  for (const Number owner : draft_.owners(index)) draft_.offer(process, Verb::close, {owner});
  const std::size_t bytes = model_.memories[model_.blocks[index].memory].size();
  for (std::size_t left = random_.between(1, 3); left > 0; --left) {
    const auto stream = draft_.free_stream(process);
    const Number buffer = draft_.fresh();
    if (!stream || !draft_.offer(process, Verb::alloc, {buffer, resource, bytes, 256, *stream})) return;
    draft_.put(process, buffer, {0, bytes}, *stream);
  }
}

/// On a stream that nothing but the sender's point holds back.
void ChannelWriter::take(int process, Number parcel) {
  auto stream = random_.chance(70) ? draft_.free_stream(process) : draft_.some_stream(process);
  if (!stream) stream = draft_.some_stream(process);
  if (!stream) return;
  const Number buffer = draft_.fresh();
  if (!draft_.offer(process, Verb::take, {buffer, parcel, *stream})) {
    draft_.offer(process, Verb::miss, {parcel, *stream});
    return;
  }
  if (random_.chance(80)) use(process, buffer, *stream);
  if (random_.chance(40)) {
    draft_.offer(process, Verb::close, {buffer});
  } else if (random_.chance(30) && model_.blocks[draft_.handle(buffer).block].traits.info.kind == MemoryKind::shared) {
    // And on to the first process, over this channel or another one.
    const auto back = model_.alone ? std::nullopt : some_open();
    if (!back || !draft_.offer(process, Verb::pack, {draft_.fresh(), *back, buffer, draft_.fresh()}, {"writable"})) return;
    if (random_.chance(50)) draft_.offer(process, Verb::close, {buffer});
    draft_.offer(process, Verb::post, {*back, *stream});
  }
}

void ChannelWriter::use(int process, Number buffer, Number stream) {
  const auto part = draft_.some_part(draft_.handle(buffer).size);
  draft_.offer(process, Verb::read, {buffer, part.offset, part.bytes, stream}, {}, stream);
  if (random_.chance(50)) draft_.put(process, buffer, draft_.some_part(draft_.handle(buffer).size), stream);
}

}  // namespace weir::test::random
