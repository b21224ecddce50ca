// SPDX-License-Identifier: Apache-2.0
// A server whose clients say what they like, nothing, or half of it. Whatever that is, others are served and nothing
// stays behind.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "as_nobody.hpp"
#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "folder.hpp"
#include "gate.hpp"
#include "ipc/channel/hostile_peer.hpp"
#include "ipc/names/address.hpp"
#include "ipc/names/messages.hpp"
#include "ipc/packets.hpp"
#include "ipc/timeline_page.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using namespace detail::names;
using namespace std::chrono_literals;
using ipc::Client;
using ipc::Server;
using ipc::ServerOptions;

constexpr auto limit = 30s;
const detail::channel::Deadline no_limit{std::chrono::milliseconds{-1}};

/// A client that has a socket, and bytes of its own making.
class Stranger {
 public:
  explicit Stranger(const std::string& path) : socket_(connect_to(path, no_limit)) {
    EXPECT_EQ(::fcntl(socket_.get(), F_SETFL, 0), 0);  // it waits
    const timeval longest{30, 0};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest), 0);
  }
  /// Return false if the server has ended the connection.
  bool say(std::span<const std::byte> packet, std::span<const int> files = {}) {
    return detail::send_packet(socket_.get(), packet, files, true) >= 0;
  }
  bool say(const Question& question) { return say(encode(question)); }
  /// Say it for as long as the server takes it.
  std::size_t say_until_full(const Question& question) {
    std::size_t count = 0;
    const auto packet = encode(question);
    while (detail::send_packet(socket_.get(), packet, {}, false) >= 0) ++count;
    return count;
  }
  /// Return what the server says next; nothing once it has ended the connection.
  std::optional<Answer> hear() {
    await();
    std::vector<std::byte> bytes(largest_answer);
    std::vector<spi::StrangerFd> files;
    files.reserve(detail::most_sent_files);
    auto arrival = detail::receive_packet(socket_.get(), bytes, files);
    if (arrival.error == ECONNRESET) arrival = detail::receive_packet(socket_.get(), bytes, files);
    EXPECT_NE(arrival.error, EAGAIN) << "the server says nothing, and does not end the connection";
    if (arrival.bytes <= 0) return std::nullopt;
    if (!files.empty()) channel_ = files.front().trust();
    return decode_answer(std::span(bytes).first(static_cast<std::size_t>(arrival.bytes)));
  }
  void greet() {
    EXPECT_TRUE(say(Hello{protocol_version, ""}));
    const auto answer = hear();
    EXPECT_TRUE(answer && std::holds_alternative<Welcome>(*answer));
  }
  spi::UniqueFd take_channel() { return std::move(channel_); }

 private:
  void await() const {
    char byte = 0;  // wait until there is something, and leave it there
    (void)::recv(socket_.get(), &byte, 1, MSG_PEEK);
  }

  spi::UniqueFd socket_, channel_;
};

class NamesStrangers : public testing::Test {
 protected:
  void serve(const ServerOptions& options = {}) {
    server.emplace(path, options);
    server->publish("a", memory, stream);
  }
  void expect_service() {
    Client client(path, limit);
    EXPECT_BYTES(read(client.get("a", stream, limit).buffer(), stream), pattern(100, 1));
  }
  template <class Wanted>
  void comes_to(Wanted wanted) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!wanted(server->stats().clients) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(wanted(server->stats().clients));
  }
  void nobody_is_left() {
    comes_to([](const std::vector<ipc::Guest>& clients) { return clients.empty(); });
  }
  static Buffer filled(const ResourcePtr& resource, const Stream& stream) {
    Buffer made = resource->allocate(100, stream);
    write(made, pattern(100, 1), stream);
    return made;
  }

  Folder folder;
  const std::string path = folder / "server";
  const Stream stream{host_device()};
  const ResourcePtr resource = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  const Buffer memory = filled(resource, stream);
  std::optional<Server> server;
};

TEST_F(NamesStrangers, ThatSayNothingAreSentAway) {
  serve({.most_clients = 2, .patience = 20ms});
  Stranger silent(path);
  Stranger another(path);
  EXPECT_FALSE(silent.hear());
  EXPECT_FALSE(another.hear());
  expect_service();
  nobody_is_left();
}

TEST_F(NamesStrangers, HaveAsLongAsTheClockCannotCount) {
  for (const std::chrono::milliseconds patience :
       {std::chrono::milliseconds::max(),
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::years(291)),
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::years(99))}) {
    serve({.patience = patience});
    Stranger silent(path);
    expect_service();
    silent.greet();
    EXPECT_TRUE(silent.say(GetTensor{1, "b"})) << patience.count();
    EXPECT_TRUE(silent.hear()) << patience.count();
  }
}

TEST_F(NamesStrangers, ThatHaveGreetedMayBeSilent) {
  serve({.patience = 20ms});
  Stranger silent(path);
  silent.greet();
  Stranger later(path);  // its end shows that the time has passed
  EXPECT_FALSE(later.hear());
  EXPECT_TRUE(silent.say(GetTensor{1, "b"}));
  EXPECT_TRUE(silent.hear());
}

TEST_F(NamesStrangers, ThatSpeakAnythingElseAreCutOff) {
  serve();
  const auto cut_off = [&](std::span<const std::byte> packet, std::span<const int> files = {}, bool greets = true) {
    Stranger stranger(path);
    if (greets) stranger.greet();
    (void)stranger.say(packet, files);
    EXPECT_FALSE(stranger.hear());
  };
  const auto good = encode(Question(GetTensor{1, "a"}));
  const int file = 0;
  cut_off(good, {}, false);
  cut_off(good, {&file, 1});
  cut_off(Packet(largest_question + 1));
  cut_off(encode(Question(Hello{protocol_version, ""})));
  for (std::size_t size = 1; size < good.size(); ++size) cut_off(std::span(good).first(size));
  for (std::uint32_t seed = 0; seed < 50; ++seed) cut_off(pattern(10 + seed, seed));
  expect_service();
  nobody_is_left();
}

TEST_F(NamesStrangers, ThatDoNotReadHoldNobodyUp) {
  serve({.most_names = 1100});
  for (int i = 0; i < 1000; ++i) server->publish(std::string(80, 'x') + std::to_string(i), memory, stream);
  Stranger deaf(path);
  deaf.greet();
  EXPECT_GT(deaf.say_until_full(ListNames{1, "*", ""}), 10U);
  Stranger deaf_subscriber(path);
  EXPECT_TRUE(deaf_subscriber.say(Hello{protocol_version, "*"}));
  for (int i = 0; i < 1000; ++i) server->publish("b", memory, stream);
  expect_service();
  std::size_t answers = 0;
  for (; answers < 10; ++answers) ASSERT_TRUE(deaf.hear()) << "what it asked is answered once it reads";
}

TEST_F(NamesStrangers, ThatTakeNothingAreLentNoMoreThanTheirWindow) {
  serve();
  Stranger greedy(path);
  greedy.greet();
  ipc::Channel channel(greedy.take_channel(), {.window = 3});
  for (std::uint32_t i = 1; i <= 5; ++i) EXPECT_TRUE(greedy.say(GetTensor{i, "a"}));
  for (std::uint32_t i = 1; i <= 5; ++i) {
    const auto answer = greedy.hear();
    ASSERT_TRUE(answer);
    if (i <= 3) {
      EXPECT_EQ(std::get<GotTensor>(*answer).request, i);
    } else {
      EXPECT_EQ(std::get<Refused>(*answer).reason, Reason::busy);
    }
  }
  EXPECT_EQ(server->stats().clients.at(0).loans.at(0).count, 3U);
  for (int i = 0; i < 3; ++i) (void)channel.receive(stream, limit);
  comes_to([](const auto& clients) { return clients.at(0).loans.empty(); });
  EXPECT_TRUE(greedy.say(GetTensor{6, "a"}));
  EXPECT_TRUE(std::holds_alternative<GotTensor>(*greedy.hear()));
}

TEST_F(NamesStrangers, ThatHaveNoChannelGetNothing) {
  serve();
  Stranger stranger(path);
  stranger.greet();
  EXPECT_TRUE(stranger.say(GetTensor{1, "a"}));
  EXPECT_EQ(std::get<Refused>(*stranger.hear()).reason, Reason::busy) << "it has not greeted on the channel";
  stranger.take_channel().reset();
  EXPECT_TRUE(stranger.say(GetTensor{2, "a"}));
  EXPECT_FALSE(stranger.hear());
  nobody_is_left();
}

TEST_F(NamesStrangers, ThatLendAreCutOff) {
  serve();
  namespace channel = detail::channel;
  const detail::OwnPage page;
  const auto file = memory_file(4096);
  for (const bool segment : {true, false}) {
    Stranger stranger(path);
    stranger.greet();
    Peer lends(stranger.take_channel());
    lends.greet();
    channel::PacketWriter packet;
    EXPECT_TRUE(segment ? packet.add(channel::Segment{1, detail::encode(whole_segment(memory, stream))})
                        : packet.add(channel::Page{}));
    const int beside = segment ? file.get() : page.file().get();
    lends.say(packet, {&beside, 1});
    EXPECT_TRUE(stranger.say(GetTensor{1, "a"}));
    ASSERT_FALSE(stranger.hear());
    EXPECT_TRUE(lends.await_end());
  }
  expect_service();
  nobody_is_left();
}

// A page shows how far the streams are that its readers wait for.
TEST_F(NamesStrangers, OfAnotherUserSeeAnotherPage) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user, too";
  ASSERT_EQ(::chmod((folder / "").c_str(), 0777), 0);
  Gate gate;
  const Stream busy(host_device());
  gate.hold(busy);
  serve({.users = {0, nobody}});
  server->publish("late", memory, busy);
  std::vector<Stranger> strangers;
  std::vector<Peer> peers;  // as long as one has it, the next one of the user gets the same page
  const auto page = [&] {
    Stranger& stranger = strangers.emplace_back(path);
    stranger.greet();
    Peer& peer = peers.emplace_back(stranger.take_channel());
    peer.greet();
    EXPECT_TRUE(stranger.say(GetTensor{1, "late"}));
    EXPECT_TRUE(std::holds_alternative<GotTensor>(*stranger.hear()));
    (void)peer.next_grant();
    struct stat seen {};
    EXPECT_EQ(::fstat(peer.page().get(), &seen), 0);
    return seen.st_ino;
  };
  const auto own = page();
  EXPECT_EQ(page(), own);
  const AsNobody now;
  const auto another = page();
  EXPECT_NE(another, own);
  EXPECT_EQ(page(), another);
}

TEST_F(NamesStrangers, ThatDieAtAnyStepLeaveNothing) {
  serve();
  expect_service();
  nobody_is_left();
  settle_files();
  const auto files = open_fds();
  for (int step = 0; step < 6; ++step) {
    Stranger stranger(path);
    std::optional<ipc::Channel> channel;
    if (step >= 1) (void)stranger.say(Hello{protocol_version, step == 2 ? "*" : ""});
    if (step >= 3) (void)stranger.hear();
    if (step >= 4) channel.emplace(stranger.take_channel());
    if (step >= 5) (void)stranger.say(GetTensor{1, "a"});
  }
  nobody_is_left();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open_fds() > files && std::chrono::steady_clock::now() < deadline) settle_files();
  EXPECT_LE(open_fds(), files) << describe_fds();
}

// Those that leave and keep the channel count, so that nobody collects connections.
TEST_F(NamesStrangers, ThatKeepTensorsKeepTheirPlace) {
  serve({.most_clients = 1});
  std::optional<Stranger> stranger(path);
  stranger->greet();
  ipc::Channel channel(stranger->take_channel());
  EXPECT_TRUE(stranger->say(GetTensor{1, "a"}));
  EXPECT_TRUE(stranger->hear());
  std::optional<ipc::Parcel> held = channel.receive(stream, limit);
  stranger.reset();
  comes_to([](const auto& clients) { return !clients.at(0).connected; });
  EXPECT_ERROR(Client(path, limit), Errc::permission_denied, "1 clients already");
  held.reset();
  nobody_is_left();
  expect_service();
}

TEST_F(NamesStrangers, AreServedWhenThereAreFilesAgain) {
  serve();
  expect_service();
  nobody_is_left();
  spi::UniqueFd waiting(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  std::vector<spi::UniqueFd> all;
  for (int file = ::dup(0); file >= 0; file = ::dup(0)) all.emplace_back(file);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_GE(detail::send_packet(waiting.get(), encode(Question(ListNames{1, "*", ""})), {}, true), 0);
  all.clear();
  char byte = 0;
  EXPECT_LE(::recv(waiting.get(), &byte, 1, 0), 0) << "the server has taken it, and what it says is no greeting";
  expect_service();
}

}  // namespace
}  // namespace weir::test
