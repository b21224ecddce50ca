// SPDX-License-Identifier: Apache-2.0
#include "generator.hpp"

#include <algorithm>
#include <array>

#include "channel_writer.hpp"
#include "draft.hpp"

namespace weir::test::random {
namespace {

class Generator : private Draft {
 public:
  Generator(std::uint64_t seed, const std::vector<Memory>& memories) : Draft(seed), memories_(memories) {}

  Program write() {
    begin();
    const std::size_t length = random.between(15, 90);
    // Most choices find nothing to act on now and then; the bound is never met by a healthy generator.
    for (std::size_t tries = 0; program.size() < length && tries < 40 * length; ++tries) {
      if (mortal_ && !model.alone && program.size() > length / 2 && random.chance(20)) channel_.die();
      step();
    }
    return std::move(program);
  }

 private:
  int some_process() { return two_ && !model.alone && random.chance(40) ? 1 : 0; }
  bool for_host(Number buffer) const { return block(buffer).traits.info.host_accessible; }
  std::size_t some_size() { return random.chance(70) ? random.pick(sizes_) : random.between(1, 5000); }

  void begin() {
    two_ = random.chance(35);
    mortal_ = two_ && random.chance(5);  // another process has to be started then, which costs as much as many programs
    for (std::size_t i = 0; i < 3; ++i) sizes_.push_back(random.pick(all_sizes));
    if (random.chance(4)) sizes_.push_back((std::size_t{8} << 20U) + 4099);  // more than a staging piece
    if (random.chance(5)) sizes_.push_back(0);
    for (const int process : {0, 1}) {
      if (process == 1 && !two_) break;
      const std::size_t streams = random.between(2, process == 0 ? 6 : 3);
      for (std::size_t i = 0; i < streams; ++i) make_stream(process);
      const std::size_t resources = random.between(1, process == 0 ? 4 : 2);
      for (std::size_t i = 0; i < resources; ++i) make_resource(process);
    }
    if (random.chance(70)) close_gate(0);
    if (two_ && random.chance(50)) close_gate(1);
  }

  void step() {
    struct Choice {
      unsigned weight;
      void (Generator::*action)(int);
    };
    static constexpr std::array choices{
        Choice{14, &Generator::alloc},     Choice{22, &Generator::access},
        Choice{14, &Generator::copy},      Choice{4, &Generator::clone},
        Choice{8, &Generator::by_host},    Choice{8, &Generator::call},
        Choice{6, &Generator::part},       Choice{8, &Generator::close},
        Choice{12, &Generator::reuse},     Choice{6, &Generator::events},
        Choice{4, &Generator::sync},       Choice{4, &Generator::probe},
        Choice{3, &Generator::close_gate}, Choice{3, &Generator::open_gate},
        Choice{4, &Generator::hold},       Choice{1, &Generator::drop},
        Choice{1, &Generator::trim},       Choice{1, &Generator::make_stream},
        Choice{5, &Generator::tensor},     Choice{6, &Generator::descriptor},
        Choice{1, &Generator::meet},       Choice{1, &Generator::make_resource},
        Choice{14, &Generator::channel}};
    unsigned total = 0;
    for (const Choice& choice : choices) total += choice.weight;
    auto rest = static_cast<unsigned>(random.below(total));
    for (const Choice& choice : choices) {
      if (rest < choice.weight) return (this->*choice.action)(some_process());
      rest -= choice.weight;
    }
  }

  // ---- steps ----

  void make_stream(int process) {
    offer(process, Verb::stream, {fresh()}, {random.pick(memories_).device.id()});
  }

  // What two processes share is shared often.
  const Memory& some_memory() {
    const Memory* memory = &random.pick(memories_);
    if (!two_ || random.chance(50)) return *memory;
    const bool of_host = random.chance(50);
    for (int tries = 0; tries < 40; ++tries) {
      if (memory->exportable && (!of_host || memory->device.backend() == "host")) break;
      memory = &random.pick(memories_);
    }
    return *memory;
  }

  void make_resource(int process) {
    const Memory& memory = some_memory();
    const std::string mode = random.chance(memory.exportable ? 40 : 20)       ? "fresh"
                             : !memory.exportable && random.chance(40)        ? "passed"
                             : !memory.exportable && random.chance(40)        ? "ordered"
                             : random.chance(40)                              ? "pool_passed"
                                                                              : "pool_ordered";
    offer(process, Verb::resource, {fresh()},
          {memory.device.id(), std::string(to_string(memory.info.kind)),
           memory.exportable ? "exportable" : "plain", mode});
  }

  void alloc(int process) {
    const auto resource = some_resource(process);
    const auto stream = some_stream(process);
    if (resource && stream) allocate(process, *resource, some_size(), *stream);
  }

  void allocate(int process, Number resource, std::size_t bytes, Number stream) {
    const Number buffer = fresh();
    if (!offer(process, Verb::alloc, {buffer, resource, bytes, random.chance(90) ? 256U : 8192U, stream}))
      return;
    if (random.chance(90)) put(process, buffer, {0, bytes}, stream);
  }

  void access(int process) {
    const auto buffer = some_buffer(process);
    const auto stream = some_stream(process);
    if (!buffer || !stream) return;
    const Part part = some_part(handle(*buffer).size);
    if (random.chance(45)) return put(process, *buffer, part, *stream);
    offer(process, Verb::read, {*buffer, part.offset, part.bytes, *stream}, {}, stream);
  }

  void copy(int process) {
    const auto to = some_buffer(process);
    const auto from = some_buffer(process);
    const auto stream = some_stream(process);
    if (!to || !from || !stream) return;
    const std::size_t there = handle(*to).size, here = handle(*from).size;
    if (there == here && random.chance(60)) {
      offer(process, Verb::assign, {*to, *from, *stream}, {}, stream);
      return;
    }
    const Part part = some_part(std::min(there, here));
    const std::size_t offset = random.between(0, here - part.bytes);
    offer(process, Verb::copy, {*to, part.offset, *from, offset, part.bytes, *stream}, {}, stream);
  }

  void clone(int process) {
    const auto from = some_buffer(process);
    const auto stream = some_stream(process);
    if (from && stream) offer(process, Verb::clone, {fresh(), *from, *stream}, {}, stream);
  }

  void by_host(int process) {
    const auto buffer = some_buffer(process);
    if (!buffer || !for_host(*buffer)) return;
    const Part part = some_part(handle(*buffer).size);
    if (random.chance(50)) {
      offer(process, Verb::poke, {*buffer, part.offset, part.bytes, fresh()});
    } else {
      offer(process, Verb::peek, {*buffer, part.offset, part.bytes});
    }
  }

  void call(int process) {
    const auto buffer = some_buffer(process);
    const auto stream = some_stream(process);
    if (buffer && stream) call_on(process, *buffer, *stream);
  }

  bool call_on(int process, Number buffer, Number stream) {
    if (!for_host(buffer)) return false;
    const Part part = some_part(handle(buffer).size);
    const std::string told = random.chance(60) ? "told" : "untold";
    if (random.chance(40)) {
      return offer(process, Verb::call_write, {buffer, part.offset, part.bytes, fresh(), stream}, {told},
                   stream);
    }
    return offer(process, Verb::call_read, {buffer, part.offset, part.bytes, stream}, {told}, stream);
  }

  void part(int process) {
    const auto of = some_buffer(process);
    if (!of) return;
    if (random.chance(50)) {
      offer(process, Verb::share, {fresh(), *of});
      return;
    }
    const Part part = some_part(handle(*of).size);
    offer(process, Verb::slice, {fresh(), *of, part.offset, part.bytes});
  }

  void close(int process) {
    if (const auto buffer = some_buffer(process)) end(process, *buffer);
  }

  /// Close it in one of the ways that are allowed.
  bool end(int process, Number buffer) {
    if (random.chance(60) && offer(process, Verb::close, {buffer})) return true;
    const Model::Block& mine = block(buffer);
    std::optional<Number> stream = some_stream(process);
    if (!mine.untold.empty() && !model.agents[mine.untold.begin()->first].dropped) {
      stream = model.agents[mine.untold.begin()->first].stream;
    }
    return stream && offer(process, Verb::close_on, {buffer, *stream});
  }

  /// The heart of it: while a use is held back, end the memory's life, have it handed out again, and
  /// overwrite it.
  void reuse(int process) {
    const auto buffer = some_buffer(process);
    if (!buffer) return;
    const std::size_t index = handle(*buffer).block;
    const auto resource = model.blocks[index].resource;
    const std::size_t size = model.memories[model.blocks[index].memory].size();
    if (!resource || model.resources.at(*resource).forgotten) return;
    if (const auto held = held_stream(process); held && random.chance(80))
      use_somehow(process, *buffer, *held);
    for (const Number owner : owners(index)) {
      if (!end(process, owner)) return;
    }
    for (std::size_t i = random.between(1, 3); i > 0; --i) {
      const auto stream = random.chance(85) ? free_stream(process) : some_stream(process);
      if (!stream) return;
      allocate(process, *resource, size, *stream);
      if (random.chance(50)) offer(process, Verb::sync, {*stream});
    }
  }

  void use_somehow(int process, Number buffer, Number stream) {
    const Part part = some_part(handle(buffer).size);
    switch (random.below(6)) {
      case 0: offer(process, Verb::read, {buffer, part.offset, part.bytes, stream}, {}, stream); return;
      case 1: put(process, buffer, part, stream); return;
      case 2: offer(process, Verb::clone, {fresh(), buffer, stream}, {}, stream); return;
      case 3: {
        const auto to = some_buffer(process);
        if (!to || handle(*to).size < part.bytes) return;
        offer(process, Verb::copy, {*to, 0, buffer, part.offset, part.bytes, stream}, {}, stream);
        return;
      }
      case 4: look_through(process, buffer, part, stream); return;
      default: call_on(process, buffer, stream);
    }
  }

  /// A consumer reads the memory and lets go of it, or hands it on to somebody who does.
  void look_through(int process, Number buffer, Part part, Number stream) {
    const Number tensor = fresh();
    if (!for_host(buffer) || !offer(process, Verb::export_tensor, {tensor, buffer, stream})) return;
    offer(process, Verb::look, {tensor, part.offset, part.bytes}, {}, stream);
    if (random.chance(70)) {
      offer(process, Verb::delete_tensor, {tensor});
      return;
    }
    const Number imported = fresh();
    const auto home = some_stream(process);
    if (home && offer(process, Verb::import_tensor, {imported, tensor, *home})) end(process, imported);
  }

  void events(int process) {
    const auto stream = some_stream(process);
    if (!stream) return;
    const auto event =
        some(model.events, [&](const Model::Point& point) { return point.process == process; });
    if (!event || random.chance(45)) {
      offer(process, Verb::record, {fresh(), *stream});
    } else if (random.chance(70)) {
      offer(process, Verb::wait, {*stream, *event});
    } else {
      offer(process, random.chance(50) ? Verb::await : Verb::ask, {*event});
    }
  }

  void sync(int process) {
    if (const auto stream = free_stream(process)) offer(process, Verb::sync, {*stream});
  }

  void probe(int process) {
    if (const auto stream = some_stream(process)) offer(process, Verb::probe, {*stream});
  }

  void close_gate(int process) {
    const auto gate = new_gate(process);
    if (!gate) return;
    if (const auto stream = free_stream(process)) offer(process, Verb::hold, {*stream, *gate});
  }

  void open_gate(int process) {
    if (const auto gate = closed_gate(process)) offer(process, Verb::open, {*gate});
  }
  void hold(int process) {
    const auto gate = closed_gate(process);
    const auto stream = some_stream(process);
    if (gate && stream) offer(process, Verb::hold, {*stream, *gate});
  }

  void drop(int process) {
    const auto resource = some_resource(process);
    const auto stream = some_stream(process);
    if (resource && random.chance(40)) {
      offer(process, Verb::forget, {*resource});
    } else if (stream) {
      offer(process, Verb::drop, {*stream});
    }
  }

  void trim(int process) {
    const auto resource = some_resource(process);
    if (resource) offer(process, Verb::trim, {*resource});
  }

  void meet(int process) {
    if (two_ && !model.alone) offer(process, Verb::meet, {});
  }

  void tensor(int process) {
    const auto held = some(model.tensors, [&](const Model::Tensor& tensor) {
      return tensor.process == process && !tensor.imported && !tensor.deleted;
    });
    const auto stream = some_stream(process);
    if (!stream) return;
    if (!held || random.chance(40)) {
      const auto buffer = some_buffer(process);
      if (buffer) offer(process, Verb::export_tensor, {fresh(), *buffer, *stream});
      return;
    }
    const Part part = some_part(model.tensors.at(*held).size);
    const auto consumer = model.tensors.at(*held).consumer;
    switch (random.below(3)) {
      case 0:
        offer(process, Verb::look, {*held, part.offset, part.bytes}, {}, model.agents[consumer].stream);
        return;
      case 1: offer(process, Verb::delete_tensor, {*held}); return;
      default: offer(process, Verb::import_tensor, {fresh(), *held, *stream});
    }
  }

  void descriptor(int process) {
    const auto parcel =
        some(model.parcels, [&](const Model::Parcel& p) { return p.to == process && !p.received; });
    if (parcel && random.chance(70)) return receive(process, *parcel);
    const auto buffer = some(model.handles, [&](const Model::Handle& of) {
      return of.process == process && !of.closed && of.size > 0 && model.blocks[of.block].traits.exportable;
    });
    auto stream = random.chance(50) ? held_stream(process) : some_stream(process);
    if (!stream) stream = some_stream(process);
    if (!buffer || !stream) return;
    if (random.chance(60)) put(process, *buffer, some_part(handle(*buffer).size), *stream);
    const int to = two_ && !model.alone && random.chance(75) ? 1 - process : process;
    const Number sent = fresh();
    if (!offer(process, Verb::send, {sent, *buffer, *stream, static_cast<Number>(to)})) return;
    if (random.chance(60)) receive(to, sent);
  }

  void channel(int process) {
    if (two_) channel_.step(process);
  }

  /// On a stream that nothing but the sender's point holds back.
  void receive(int process, Number parcel) {
    auto stream = random.chance(70) ? free_stream(process) : some_stream(process);
    if (!stream) stream = some_stream(process);
    const Number buffer = fresh();
    if (!stream || !offer(process, Verb::receive, {buffer, parcel, *stream}) || random.chance(30)) return;
    const Part part = some_part(handle(buffer).size);
    offer(process, Verb::read, {buffer, part.offset, part.bytes, *stream}, {}, stream);
  }

  inline static const std::vector<std::size_t> all_sizes{1, 7, 64, 255, 1000, 4096, 5000, 4099, 20000, 66000};

  const std::vector<Memory>& memories_;
  std::vector<std::size_t> sizes_;
  bool two_ = false, mortal_ = false;
  ChannelWriter channel_{*this};
};

}  // namespace

Program generate(std::uint64_t seed, const std::vector<Memory>& memories) {
  return Generator(seed, memories).write();
}

}  // namespace weir::test::random
