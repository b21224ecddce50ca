// SPDX-License-Identifier: Apache-2.0
// What a subscriber is told of a server's names, and what arguments are refused.

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "dead_socket.hpp"
#include "expect.hpp"
#include "folder.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Change;
using ipc::Client;
using ipc::News;
using ipc::Server;
using ipc::ServerOptions;

const std::chrono::seconds limit = answer_limit();

class Names : public testing::Test {
 protected:
  std::uint64_t publish(Server& server, std::string_view name) { return server.publish(name, buffer, stream); }

  Folder folder;
  const std::string path = folder / "server";
  const Stream stream{host_device()};
  const ResourcePtr resource = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  const Buffer buffer = resource->allocate(100, stream);
};

void expect_news(const News& news, Change change, const std::string& name, std::uint64_t version) {
  EXPECT_EQ(news.change, change);
  EXPECT_EQ(news.tensor.name, name);
  EXPECT_EQ(news.tensor.version, version);
}

TEST_F(Names, ChangesAreToldInOrder) {
  Server server(path);
  publish(server, "before");
  const Client client(path, limit);
  auto all = client.subscribe("*", limit);
  auto some = client.subscribe("camera/*", limit);
  auto one = client.subscribe("b", limit);
  const auto first = publish(server, "camera/0");
  const auto second = publish(server, "b");
  const auto third = publish(server, "camera/0");
  EXPECT_TRUE(server.withdraw("b"));
  expect_news(all.next(limit), Change::published, "camera/0", first);
  expect_news(all.next(limit), Change::published, "b", second);
  const News news = all.next(limit);
  expect_news(news, Change::published, "camera/0", third);
  EXPECT_EQ(news.tensor.layout.shape, std::vector<std::int64_t>{100});
  expect_news(all.next(limit), Change::withdrawn, "b", third + 1);
  expect_news(some.next(limit), Change::published, "camera/0", first);
  expect_news(some.next(limit), Change::published, "camera/0", third);
  expect_news(one.next(limit), Change::published, "b", second);
  expect_news(one.next(limit), Change::withdrawn, "b", third + 1);
  EXPECT_ERROR(one.next(1ms), Errc::timed_out, "in time");
  server.close();
  EXPECT_ERROR(all.next(limit), Errc::peer_gone, "gone");
}

// The system keeps some hundred packets for a subscriber, and the server remembers four changes.
TEST_F(Names, ASlowSubscriberIsToldThatItMissedSome) {
  Server server(path, {.remembered = 4});
  Client client(path, limit);
  auto news = client.subscribe("*", limit);
  for (int i = 0; i < 3000; ++i) publish(server, "a");
  EXPECT_EQ(client.list("*", limit).at(0).version, 3000U) << "others are served";
  std::uint64_t version = 0;
  std::size_t missed = 0;
  while (version < 3000) {
    const News next = news.next(limit);
    if (next.change == Change::missed) {
      ++missed;
      EXPECT_GT(next.tensor.version, version + 4) << "it missed nothing";
    } else {
      EXPECT_EQ(next.tensor.version, version + 1);
    }
    version = next.tensor.version;
  }
  EXPECT_GE(missed, 1U);
  publish(server, "b");
  expect_news(news.next(limit), Change::published, "b", 3001);
}

TEST_F(Names, LongListsComeInParts) {
  Server server(path);
  for (int i = 1000; i < 2000; ++i) publish(server, std::string(80, 'x') + std::to_string(i));
  Client client(path, limit);
  const auto all = client.list("*", limit);
  ASSERT_EQ(all.size(), 1000U);
  EXPECT_EQ(server.names().size(), 1000U);
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(all[i].name, std::string(80, 'x') + std::to_string(1000 + i));
  EXPECT_EQ(client.list(std::string(80, 'x') + "101*", limit).size(), 10U);
  EXPECT_EQ(client.list(all[7].name, limit).size(), 1U);
  EXPECT_TRUE(client.list("y*", limit).empty());
}

TEST_F(Names, LongListsOfLoansComeInParts) {
  Server server(path, {.most_loans = 600});
  Client client(path, limit);
  std::vector<Tensor> held;
  for (int i = 0; i < 600; ++i) {
    publish(server, std::string(100, 'x'));
    held.push_back(client.get(std::string(100, 'x'), stream, limit));
  }
  Client idle(path, limit);
  const auto guests = client.guests(limit);
  ASSERT_EQ(guests.size(), 2U);
  ASSERT_EQ(guests[0].loans.size(), 600U);
  for (std::size_t i = 0; i < 600; ++i) EXPECT_EQ(guests[0].loans[i].version, i + 1);
  EXPECT_TRUE(guests[1].loans.empty());
}

TEST_F(Names, AreRefusedThatNobodyCouldTell) {
  Server server(path, {.most_names = 2, .most_name_bytes = 5});
  for (const char* const name : {"", "a\nb", "a*", "123456", "\x7f"})
    EXPECT_ERROR(publish(server, name), Errc::invalid_argument, "a name has 1 to 5 bytes");
  publish(server, "12345");
  publish(server, "b");
  EXPECT_ERROR(publish(server, "c"), Errc::invalid_argument, "2 names already");
  publish(server, "b");
  EXPECT_EQ(server.names().size(), 2U);
  EXPECT_ERROR(server.publish("b", make_resource(host_device())->allocate(10, stream), stream), Errc::unsupported,
               "exportable");
  EXPECT_ERROR(server.publish("b", Buffer(), stream), Errc::closed, "");
  Client client(path, limit);
  EXPECT_ERROR(client.get("c", stream, limit), Errc::invalid_argument, "no tensor of this name");
  EXPECT_ERROR(client.get("", stream, limit), Errc::invalid_argument, "no name");
  EXPECT_ERROR(client.list("", limit), Errc::invalid_argument, "pattern");
  EXPECT_ERROR(client.subscribe(std::string(300, 'x'), limit), Errc::invalid_argument, "pattern");
}

TEST_F(Names, AClosedServerServesNobody) {
  Server server(path);
  publish(server, "a");
  Server moved = std::move(server);
  Client client(path, limit);
  moved.close();
  moved.close();
  EXPECT_EQ(folder.files(), 0U);
  EXPECT_ERROR(moved.withdraw("a"), Errc::closed, "closed");
  EXPECT_ERROR(publish(moved, "a"), Errc::closed, "closed");
  EXPECT_ERROR(moved.stats(), Errc::closed, "closed");
  EXPECT_ERROR(client.get("a", stream, limit), Errc::peer_gone, "");
  server = Server(path);
  publish(server, "a");
  server = Server(folder / "another");
  EXPECT_EQ(folder.files(), 1U);
}

TEST_F(Names, AClosedClientAsksNothing) {
  Server server(path);
  publish(server, "a");
  Client client(path, limit);
  const Tensor held = client.get("a", stream, limit);
  client.close();
  client.close();
  EXPECT_ERROR(client.get("a", stream, limit), Errc::closed, "closed");
  EXPECT_ERROR(client.list("*", limit), Errc::closed, "closed");
  EXPECT_ERROR(client.guests(limit), Errc::closed, "closed");
  EXPECT_ERROR(client.subscribe("*", limit), Errc::closed, "closed");
}

TEST_F(Names, OptionsAreChecked) {
  for (const ServerOptions& options :
       {ServerOptions{.most_clients = 0}, ServerOptions{.most_names = 0}, ServerOptions{.most_name_bytes = 256},
        ServerOptions{.most_loans = 0}, ServerOptions{.remembered = 0}, ServerOptions{.patience = 0ms}})
    EXPECT_ERROR(Server(path, options), Errc::invalid_argument, "ipc::Server: ");
  EXPECT_ERROR(Server(path, {.users = {1, 2, 3}, .most_clients = 2}), Errc::invalid_argument, "there are 3 users");
  EXPECT_NO_THROW(Server(path, {.users = {1, 2, 2, 1}, .most_clients = 2}));
  EXPECT_ERROR(Server(std::string(108, 'x')), Errc::invalid_argument, "1 to 107 bytes");
  EXPECT_ERROR(Server(""), Errc::invalid_argument, "1 to 107 bytes");
  EXPECT_EQ(folder.files(), 0U);
}

// Until it listens, the socket has a name of nine bytes in that folder.
TEST_F(Names, AFolderThatIsTooLongIsRefusedAndNothingIsLeft) {
  std::string long_folder = folder / "";
  ASSERT_LT(long_folder.size(), 90U);
  long_folder.append(100 - long_folder.size() - 1, 'x');
  ASSERT_EQ(::mkdir(long_folder.c_str(), 0700), 0);
  EXPECT_ERROR(Server(long_folder + "/s"), Errc::invalid_argument, "use a shorter folder");
  EXPECT_TRUE(std::filesystem::is_empty(long_folder));
  long_folder.resize(98 - 1);
  ASSERT_EQ(::mkdir(long_folder.c_str(), 0700), 0);
  const Server fits(long_folder + "/s");
  EXPECT_TRUE(Client(long_folder + "/s", limit).list("*", limit).empty());
}

TEST_F(Names, ThePathIsNobodyElses) {
  const Server server(path);
  try {
    const Server second(path);
    ADD_FAILURE() << "two servers at one path";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), std::errc::address_in_use) << error.what();
  }
  std::ofstream(folder / "file") << "a file of somebody";
  EXPECT_THROW(Server(folder / "file"), Error);
  EXPECT_EQ(folder.files(), 2U) << "nothing was removed, and nothing left";
  EXPECT_THROW(Server(folder / "no/folder"), Error);
  EXPECT_ERROR(Client(folder / "nobody", limit), Errc::peer_gone, "no server");
}

TEST_F(Names, OneOfManyServersTakesADeadOnesPlace) {
  constexpr int rounds = 100, many = 4;
  for (int round = 0; round < rounds; ++round) {
    leave_dead_socket(path);
    std::barrier all(many);
    std::vector<std::optional<Server>> servers(many);
    std::atomic<int> refused{0};
    {
      std::vector<Thread> threads;
      for (auto& server : servers) {
        threads.emplace_back([&] {
          all.arrive_and_wait();
          try {
            server.emplace(path);
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), std::errc::address_in_use) << error.what();
            ++refused;
          }
        });
      }
    }
    ASSERT_EQ(refused, many - 1);
    EXPECT_TRUE(Client(path, limit).list("*", limit).empty());
  }
  EXPECT_EQ(folder.files(), 1U) << "the lock, which stays";
}

unsigned mode_of(const std::string& file) {
  struct stat found {};
  EXPECT_EQ(::stat(file.c_str(), &found), 0);
  return found.st_mode & 0777U;
}

TEST_F(Names, OnlyThoseUsersConnectWhoAreNamed) {
  const auto me = static_cast<std::uint32_t>(::geteuid());
  {
    const Server server(path);
    EXPECT_EQ(mode_of(path), 0600U);
  }
  {
    const Server server(path, {.users = {me + 1}});
    EXPECT_EQ(mode_of(path), 0666U);
    EXPECT_ERROR(Client(path, limit), Errc::permission_denied, "user " + std::to_string(me) + " may not connect");
  }
  const Server server(path, {.users = {me + 1, me}});
  const Client client(path, limit);
  EXPECT_EQ(server.stats().clients.at(0).user, me);
}

TEST_F(Names, NoMoreClientsConnectThanMay) {
  const Server server(path, {.most_clients = 2});
  const Client one(path, limit);
  {
    const Client two(path, limit);
    EXPECT_ERROR(Client(path, limit), Errc::permission_denied, "2 clients already");
    EXPECT_ERROR(one.subscribe("*", limit), Errc::permission_denied, "2 clients already");
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (server.stats().clients.size() == 2 && std::chrono::steady_clock::now() < deadline) {
  }
  const Client two(path, limit);
}

}  // namespace
}  // namespace weir::test
