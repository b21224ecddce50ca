// SPDX-License-Identifier: Apache-2.0
// One side of what processes do with each other, short: kill_child <role> <device> <path>. It says "ready" on
// descriptor 3 and begins when a line comes. Whoever started it kills it at any step. At the end it says "done", and
// waits for a line. Whatever fails is said in the line. The other sides are in the tests beside this file.

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "crash.hpp"
#include "victim.hpp"
#include "weir/client.hpp"
#include "weir/device.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/ring.hpp"
#include "weir/server.hpp"

// A process that is traced cannot look for its leaks.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT(bugprone-reserved-identifier)

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
const auto limit = kill_limit;
constexpr std::uint32_t count = kill_count;

struct WrongBytes : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What every role has from the beginning.
struct Stage {
  Device device;
  std::string path;
  spi::UniqueFd socket;  // of a channel or a ring
  Stream stream{device};

  [[nodiscard]] ResourcePtr resource() const {
    MemoryKind kind{};
    for (const KindInfo& known : device.kinds()) {
      if (known.exportable) kind = known.kind;
    }
    return make_resource(device, kind, {.exportable = true});
  }
  [[nodiscard]] Buffer make(const ResourcePtr& from, std::uint32_t index, std::uint32_t round = 0) const {
    Buffer buffer = from->allocate(kill_bytes, stream);
    write(buffer, kill_pattern(index, round), stream);
    return buffer;
  }
  void check(const Buffer& buffer, std::uint32_t index, std::uint32_t round = 0) const {
    const auto same = same_bytes(read(buffer, stream), kill_pattern(index, round));
    if (!same) throw WrongBytes(std::to_string(index) + ": " + same.message());
  }
  static void meet(const char* said) {
    write_line(lines, said);
    (void)read_line(lines);
  }
};

void lend(Stage& stage) {
  ipc::Channel channel(std::move(stage.socket));
  const ResourcePtr resource = stage.resource();
  for (std::uint32_t i = 0; i < count; ++i) channel.send(stage.make(resource, i), stage.stream, {}, limit);
  stage.stream.synchronize();  // what nobody knows to be written is lost with this process
  stage.meet("lent");
}

// The first goes back at once, the last is written, and one of its own goes the other way.
void borrow(Stage& stage) {
  ipc::Channel channel(std::move(stage.socket));
  std::vector<ipc::Parcel> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    all.push_back(channel.receive(stage.stream, limit));
    stage.check(all.back().buffer, i);
    if (i == 0) all.back().buffer.close();
  }
  write(all.back().buffer, kill_pattern(count, 1), stage.stream);
  channel.send(stage.make(stage.resource(), count), stage.stream, {}, limit);
  stage.meet("borrows");
}

void send_out(Stage& stage) {
  const ResourcePtr resource = stage.resource();
  for (std::uint32_t i = 0; i < count; ++i) ipc::send(lines, stage.make(resource, i).ipc_descriptor(stage.stream));
}

void import(Stage& stage) {
  std::vector<Buffer> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    all.push_back(ipc::open(ipc::receive(lines, limit), stage.stream));
    stage.check(all.back(), i);
    if (i == 0) all.back().close();
  }
}

void serve(Stage& stage) {
  const ResourcePtr resource = stage.resource();
  ipc::Server server(stage.path);
  server.publish("other", stage.make(resource, 1), stage.stream);
  server.publish("tensor", stage.make(resource, 0), stage.stream);
  stage.meet("serves");
  server.publish("tensor", stage.make(resource, 0, 1), stage.stream);
  stage.meet("again");
  server.withdraw("other");
  server.close();
}

void get(Stage& stage) {
  ipc::Client client(stage.path, limit);
  auto subscription = client.subscribe("*", limit);
  Tensor first = client.get("tensor", stage.stream, limit);
  stage.check(first.buffer(), 0);
  const Tensor second = client.get("tensor", stage.stream, limit);
  first.buffer().close();
  stage.meet("has");
  (void)subscription.next(limit);
  stage.check(second.buffer(), 0);
}

void produce(Stage& stage) {
  ipc::RingProducer producer(stage.resource(), {.slots = count, .slot_bytes = kill_bytes});
  (void)producer.add_consumer(std::move(stage.socket));
  for (std::uint32_t i = 0; i < 2 * count; ++i) {
    Buffer slot = producer.acquire(stage.stream, limit);
    write(slot, kill_pattern(i), stage.stream);
    stage.stream.synchronize();
    (void)producer.publish(std::move(slot), stage.stream);
  }
  (void)producer.drain(limit);
}

void consume(Stage& stage) {
  ipc::RingConsumer consumer(std::move(stage.socket));
  for (std::uint64_t last = 0; last != 2 * count - 1;) {  // some may be missed
    const ipc::Frame frame = consumer.next(stage.stream, limit);
    last = frame.sequence;
    stage.check(frame.buffer, static_cast<std::uint32_t>(last));
  }
}

void commit(Stage& stage) {
  const ResourcePtr resource = stage.resource();
  ipc::SetWriter writer(stage.path, "set");
  for (std::uint32_t round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < count; ++i)
      writer.add(std::to_string(i), stage.make(resource, i, round).view(u8, {kill_bytes}), stage.stream);
    (void)writer.commit(limit);
    stage.meet("committed");
  }
}

void open(Stage& stage) {
  ipc::SetReader reader(stage.path, "set");
  const ipc::HeldSet set = reader.open(stage.stream, limit);
  for (std::uint32_t i = 0; i < count; ++i) stage.check(set.tensors.at(std::to_string(i)).buffer(), i);
}

void hold(Stage& stage) {
  ipc::Holder holder(stage.path);
  write_line(lines, "serves");
  holder.run();
}

std::string play(const std::string& role, Device device, const std::string& path) {
  static const std::map<std::string, void (*)(Stage&)> roles = {
      {"lend", lend},     {"borrow", borrow}, {"export", send_out}, {"import", import},
      {"serve", serve},   {"get", get},       {"produce", produce}, {"consume", consume},
      {"commit", commit}, {"open", open},     {"hold", hold}};
  Stage stage{std::move(device), path, {}};
  if (needs_socket(role)) stage.socket = ipc::receive(lines, limit).fds().front().duplicate();
  stage.stream.synchronize();
  stage.meet("ready");
  roles.at(role)(stage);
  return "done";
}

}  // namespace

int main(int argc, char** argv) {
  print_crashes();
  if (argc != 4) return 2;
  std::string said;
  try {
    said = play(argv[1], device(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    said = std::string("throws: ") + error.what();
  }
  try {
    Stage::meet(said.c_str());
  } catch (const std::exception&) {  // nobody listens any more
  }
  return said == "done" ? 0 : 1;
}
