// SPDX-License-Identifier: Apache-2.0
// Tensors by name: server and client in this process, and one of them in another.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "fixture.hpp"
#include "folder.hpp"
#include "gate.hpp"
#include "rounds.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Change;
using ipc::Client;
using ipc::Server;
using Shape = std::vector<std::int64_t>;

const std::chrono::seconds limit = answer_limit();

class NamedTensors : public OnMemory {
 protected:
  [[nodiscard]] Tensor tensor(std::size_t bytes, std::uint32_t seed) const {
    return filled(pattern(bytes, seed)).view(u8, {static_cast<std::int64_t>(bytes)});
  }
  // What clients give back comes by itself.
  template <class Wanted>
  static bool comes_to(const Server& server, Wanted wanted) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!wanted(server.stats())) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static bool nobody_has_anything(const Server& server) {
    return comes_to(server, [](const ipc::ServerStats& stats) {
      return std::ranges::all_of(stats.clients, [](const ipc::Guest& guest) { return guest.loans.empty(); });
    });
  }
  [[nodiscard]] Child spawn(const std::string& mode) const {
    return {WEIR_CHILD_DIR "/names_child", {mode, device().id(), path}};
  }

  Folder folder;
  const std::string path = folder / "server";
};
WEIR_FOR_EACH_EXPORTABLE(NamedTensors);

TEST_P(NamedTensors, AreTheSameMemory) {
  Server server(path);
  Buffer memory = filled(pattern(5000, 1));
  const Layout layout{f32, {4, 3}, {-30, 7}, 1200};
  const Tensor published(memory.share(), layout);
  const auto version = server.publish("weights/0", published, stream);
  Client client(path, limit);
  const auto listed = client.list("*", limit);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].name, "weights/0");
  EXPECT_EQ(listed[0].version, version);
  EXPECT_EQ(listed[0].bytes, 5000U);
  EXPECT_EQ(listed[0].where, device().id() + ' ' + std::string(to_string(memory.kind())));
  Tensor got = client.get("weights/0", stream, limit);
  EXPECT_EQ(got.layout().dtype, f32);
  EXPECT_EQ(got.layout().shape, layout.shape);
  EXPECT_EQ(got.layout().strides, layout.strides);
  EXPECT_EQ(got.layout().byte_offset, layout.byte_offset);
  EXPECT_BYTES(read(got.buffer(), stream), pattern(5000, 1));
  got.buffer().fill(std::uint8_t{9}, stream);
  EXPECT_BYTES(read(memory, stream), repeat(5000, 9));
}

TEST_P(NamedTensors, OutliveTheirNameServerAndClient) {
  std::vector<Tensor> held;
  {
    Server server(path);
    server.publish("a", tensor(5000, 1), stream);
    Client client(path, limit);
    held.push_back(client.get("a", stream, limit));
    server.publish("a", tensor(5000, 2), stream);
    held.push_back(client.get("a", stream, limit));
    EXPECT_TRUE(server.withdraw("a"));
    EXPECT_FALSE(server.withdraw("a"));
    EXPECT_ERROR(client.get("a", stream, limit), Errc::invalid_argument, "no tensor of this name");
  }
  resource->trim(0);
  for (int i = 0; i < 4; ++i) resource->allocate(5000, stream).fill(std::uint8_t{0xff}, stream);
  stream.synchronize();
  EXPECT_BYTES(read(held[0].buffer(), stream), pattern(5000, 1));
  EXPECT_BYTES(read(held[1].buffer(), stream), pattern(5000, 2));
}

TEST_P(NamedTensors, AreLentInOrderOfTheStream) {
  Server server(path);
  Buffer buffer = filled(repeat(5000, 0x11));
  const Stream free(device());
  Buffer apart = resource->allocate(100, free);
  write(apart, pattern(100, 3), free);
  server.publish("other", apart, free);
  Gate gate;
  gate.hold(stream);
  write(buffer, pattern(5000, 1), stream);
  server.publish("late", buffer, stream);
  Client client(path, limit);
  const Stream mine(device());
  const Tensor other = client.get("other", mine, limit);
  mine.synchronize();
  const Tensor got = client.get("late", mine, limit);
  Bytes seen(5000);
  got.buffer().copy_to(std::span(seen), mine);
  EXPECT_FALSE(mine.done());
  gate.open();
  mine.synchronize();
  EXPECT_BYTES(seen, pattern(5000, 1));
}

TEST_P(NamedTensors, AreLentBehindWorkThatIsNotWeirs) {
  Server server(path);
  const Buffer buffer = filled(pattern(5000, 1));
  const Stream publisher(device());  // weir does not know that it uses the buffer
  Gate gate;
  gate.hold(publisher);
  server.publish("late", buffer, publisher);
  Client client(path, limit);
  const Stream mine(device());
  const Tensor got = client.get("late", mine, limit);
  EXPECT_FALSE(mine.done());
  gate.open();
  mine.synchronize();
  EXPECT_BYTES(read(got.buffer(), mine), pattern(5000, 1));
}

TEST_P(NamedTensors, MayHaveNoElements) {
  Server server(path);
  server.publish("empty", resource->allocate(0, stream).view(f64, {3, 0, 2}), stream);
  Client client(path, limit);
  const Tensor got = client.get("empty", stream, limit);
  EXPECT_EQ(got.layout().shape, (Shape{3, 0, 2}));
  EXPECT_EQ(got.layout().dtype, f64);
  EXPECT_EQ(client.list("*", limit).at(0).bytes, 0U);
}

TEST_P(NamedTensors, StatisticsSayWhoHasWhat) {
  Server server(path);
  const auto version = server.publish("a", tensor(500, 1), stream);
  Client client(path, limit);
  Client other(path, limit);
  Tensor one = client.get("a", stream, limit);
  Tensor two = client.get("a", stream, limit);
  for (const auto& guests : {server.stats().clients, other.guests(limit)}) {
    ASSERT_EQ(guests.size(), 2U);
    EXPECT_LT(guests[0].number, guests[1].number);
    ASSERT_EQ(guests[0].loans.size(), 1U);
    EXPECT_EQ(guests[0].loans[0].name, "a");
    EXPECT_EQ(guests[0].loans[0].version, version);
    EXPECT_EQ(guests[0].loans[0].count, 2U);
    EXPECT_EQ(guests[0].loans[0].bytes, 500U);
    EXPECT_TRUE(guests[1].loans.empty());
    EXPECT_TRUE(guests[0].connected);
  }
  one.buffer().close();
  stream.synchronize();
  EXPECT_TRUE(comes_to(server, [](const auto& stats) { return stats.clients[0].loans.at(0).count == 1; }));
  client.close();
  EXPECT_TRUE(comes_to(server, [](const auto& stats) { return !stats.clients[0].connected; }));
  EXPECT_EQ(server.stats().clients[0].loans.size(), 1U) << "it left, and holds a tensor";
  two.buffer().close();
  stream.synchronize();
  EXPECT_TRUE(comes_to(server, [](const auto& stats) { return stats.clients.size() == 1; }));
}

TEST_P(NamedTensors, AClientHoldsNoMoreThanItMay) {
  Server server(path, {.most_loans = 3});
  server.publish("a", tensor(500, 1), stream);
  Client client(path, limit);
  std::vector<Tensor> held;
  for (int i = 0; i < 3; ++i) held.push_back(client.get("a", stream, limit));
  EXPECT_ERROR(client.get("a", stream, limit), Errc::permission_denied, "holds 3 tensors");
  held.clear();
  stream.synchronize();
  EXPECT_TRUE(nobody_has_anything(server));
  (void)client.get("a", stream, limit);
}

TEST_P(NamedTensors, ManyComeAndGo) {
  Server server(path);
  Client client(path, limit);
  for (std::uint32_t i = 0; i < 300; ++i) {
    server.publish("a", tensor(200, i), stream);
    EXPECT_BYTES(read(client.get("a", stream, limit).buffer(), stream), pattern(200, i));
  }
  stream.synchronize();
  EXPECT_TRUE(nobody_has_anything(server));
}

TEST_P(NamedTensors, LeaveNoFilesBehind) {
  const auto round = [&] {
    Server server(path);
    server.publish("a", tensor(500, 1), stream);
    Client client(path, limit);
    auto subscription = client.subscribe("*", limit);
    (void)client.get("a", stream, limit);
    (void)client.get("a", stream, limit);
  };
  expect_rounds_leave_no_files(round, stream, *resource, limit);
  EXPECT_EQ(folder.files(), 0U);
}

TEST_P(NamedTensors, AnotherProcessWritesThem) {
  Server server(path);
  std::vector<float> numbers(15);
  std::iota(numbers.begin(), numbers.end(), 0.F);
  const Buffer buffer = filled(std::as_bytes(std::span(numbers)));
  server.publish("tensor", buffer.view(f32, {3, 5}), stream);
  Child child = spawn("rewrite");
  EXPECT_EQ(child.line(), "done");
  for (float& number : numbers) ++number;
  EXPECT_BYTES(read(buffer, stream), std::as_bytes(std::span(numbers)));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(comes_to(server, [](const auto& stats) { return stats.clients.empty(); }));
}

TEST_P(NamedTensors, AKilledClientGivesEverythingBack) {
  Server server(path);
  server.publish("tensor", tensor(60, 1), stream);
  Child child = spawn("hold");
  EXPECT_EQ(child.line(), "holds");
  EXPECT_EQ(server.stats().clients.at(0).loans.at(0).count, 3U);
  child.kill();
  EXPECT_TRUE(comes_to(server, [](const auto& stats) { return stats.clients.empty(); }));
}

TEST_P(NamedTensors, AKilledServerIsNoticedAndReplaced) {
  std::optional<Child> child(std::in_place, WEIR_CHILD_DIR "/names_child",
                             std::vector<std::string>{"serve", device().id(), path});
  EXPECT_EQ(child->line(), "serves");
  Client client(path, limit);
  auto subscription = client.subscribe("*", limit);
  const Tensor held = client.get("tensor", stream, limit);
  std::vector<float> numbers(15);
  std::iota(numbers.begin(), numbers.end(), 0.F);
  // Until then the server's own work on the memory may be unfinished, and would be lost with it.
  EXPECT_BYTES(read(held.buffer(), stream), std::as_bytes(std::span(numbers)));
  child->kill();
  EXPECT_ERROR(client.get("tensor", stream, limit), Errc::peer_gone, "");
  EXPECT_ERROR(client.list("*", limit), Errc::peer_gone, "");
  EXPECT_ERROR(subscription.next(limit), Errc::peer_gone, "the server is gone");
  EXPECT_BYTES(read(held.buffer(), stream), std::as_bytes(std::span(numbers)));
  EXPECT_ERROR(Client(path, limit), Errc::peer_gone, "there is no server");
  Server server(path);  // takes the place of the dead one
  EXPECT_TRUE(Client(path, limit).list("*", limit).empty());
}

// What an earlier call asked for and gave up goes back without being waited for.
TEST(NamesOfTheHost, AQuestionThatWasGivenUpHoldsUpNobodysStream) {
  const Folder folder;
  const Stream held(host_device()), stream(host_device());
  const auto resource = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  const Buffer slow = resource->allocate(64, stream), fast = resource->allocate(64, stream);
  Gate gate;
  gate.hold(held);
  Server server(folder / "server");
  server.publish("slow", slow, held);
  server.publish("fast", fast, stream);
  Client client(server.path());
  const Stream impatient(host_device());
  while (!fails_with([&] { (void)client.get("slow", impatient, 0ms); }, Errc::timed_out, "")) {
  }
  (void)client.get("fast", stream, limit);
  stream.synchronize();  // for ever, if it is behind the gate
  gate.open();
}

TEST(NamesOfTheHost, WhatAQuestionThatWasGivenUpAskedForGoesBackWithAnyCall) {
  const Folder folder;
  const Stream stream(host_device());
  Server server(folder / "server");
  server.publish("a", host::make_shared_resource()->allocate(64, stream), stream);
  Client client(server.path());
  const auto loans = [&] { return client.guests(limit).at(0).loans.size(); };
  while (!fails_with([&] { (void)client.get("a", stream, 0ms); }, Errc::timed_out, "")) {
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (loans() != 0 && std::chrono::steady_clock::now() < deadline) (void)client.list("*", limit);
  EXPECT_EQ(loans(), 0U);
}

// A thread of the parent may be inside a call when the process forks.
TEST(NamesOfTheHost, AChildIsToldThatItHasNoServer) {
  const Folder folder;
  const Stream stream(host_device());
  const auto resource = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  const Buffer buffer = resource->allocate(64, stream);
  Server server(folder / "server");
  Client client(server.path());
  std::atomic<bool> ends{false};
  Thread publishes([&] {
    while (!ends) server.publish("a", buffer, stream);
  });
  constexpr unsigned certainly_hung = 20;  // seconds
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(certainly_hung);
      const bool told = fails_with([&] { (void)server.names(); }, Errc::unsupported, "parent") &&
                        fails_with([&] { (void)client.subscribe("*"); }, Errc::unsupported, "parent");
      ::_exit(told ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ends = true;
}

}  // namespace
}  // namespace weir::test
