// SPDX-License-Identifier: Apache-2.0
// Servers and clients that are killed at each step.

#include <cstdint>
#include <optional>
#include <string>

#include "expect.hpp"
#include "folder.hpp"
#include "surviving.hpp"
#include "weir/client.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

using ipc::Client;
using ipc::Server;
using ipc::Subscription;

class KilledNames : public Surviving {
 protected:
  /// Read all news; the last of them is that the server is gone.
  static void hear_the_end(Subscription& subscription) {
    while (done([&] { (void)subscription.next(kill_limit); })) {
    }
  }

  Folder folder;
  const std::string path = folder / "server";
};
WEIR_FOR_EACH(KilledNames, one_exportable_each(), MemoryName);

TEST_P(KilledNames, ServersLeaveWhatClientsHaveAndTheirPlace) {
  kill_before_each_call("serve", path, [&](Victim& victim) {
    victim.go();
    const Stream mine(device());
    std::optional<Client> client;
    std::optional<Subscription> subscription;
    std::optional<Tensor> first, second;
    if (victim.line() == "serves") {
      client = got([&] { return Client(path, kill_limit); });
      if (client) subscription = got([&] { return client->subscribe("*", kill_limit); });
      if (subscription) first = got([&] { return client->get("tensor", mine, kill_limit); });
    }
    victim.say("publish again");
    if (victim.line() == "again" && first) {
      second = got([&] { return client->get("tensor", mine, kill_limit); });
      if (second) check(second->buffer(), mine, 0, 1);
      (void)done([&] { EXPECT_EQ(subscription->next(kill_limit).tensor.name, "tensor"); });
    }
    victim.say("end");
    (void)victim.line();
    (void)victim.end();
    if (client) {
      EXPECT_ERROR(client->get("tensor", stream, kill_limit), Errc::peer_gone, "");
    }
    if (subscription) hear_the_end(*subscription);
    if (first) check(first->buffer(), mine, 0);
    if (second) check(second->buffer(), mine, 0, 1);
    EXPECT_ERROR(Client(path, kill_limit), Errc::peer_gone, "there is no server");
    const Server next(path);
    EXPECT_TRUE(Client(path, kill_limit).list("*", kill_limit).empty());
  });
}

TEST_P(KilledNames, ClientsGiveEverythingBackAndDisturbNobody) {
  Server server(path, {.most_clients = 3});
  kill_before_each_call("get", path, [&](Victim& victim) {
    server.publish("tensor", make(0).view(u8, {kill_bytes}), stream);
    victim.go();
    Client other(path, kill_limit);
    const Tensor held = other.get("tensor", stream, kill_limit);
    const std::string said = victim.line();
    EXPECT_TRUE(said.empty() || said == "has") << said;
    server.publish("tensor", make(0, 1).view(u8, {kill_bytes}), stream);
    victim.say("go on");
    const std::string end = victim.line();
    EXPECT_TRUE(end.empty() || end == "done") << end;
    (void)victim.end();
    check(held.buffer(), 0);
    check(other.get("tensor", stream, kill_limit).buffer(), 0, 1);
    EXPECT_TRUE(comes([&] { return server.stats().clients.size() == 1; })) << "the dead one still counts";
    EXPECT_TRUE(server.withdraw("tensor"));
  });
}

}  // namespace
}  // namespace weir::test
