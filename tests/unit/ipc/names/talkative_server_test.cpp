// SPDX-License-Identifier: Apache-2.0
// A server that says more than it is asked for. What has come before the time limit is taken, and not without end.

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "folder.hpp"
#include "ipc/names/messages.hpp"
#include "ipc/packets.hpp"
#include "threads.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/interruptible.hpp"

namespace weir::test {
namespace {

using namespace detail::names;
using namespace std::chrono_literals;

constexpr auto limit = 30s;
constexpr int too_many = 3;

/// Greets its only client, lends it buffers that nobody asked for, gives answers without a question, and is then silent.
class TalkativeServer {
 public:
  TalkativeServer(const std::string& path, int buffers, std::vector<Answer> answers)
      : listens_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listens_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listens_.get(), 1), 0);
    thread_.emplace([this, buffers, answers = std::move(answers)] { serve(buffers, answers); });
  }
  /// Return once it has said everything.
  void await() { EXPECT_EQ(said_.get_future().wait_for(limit), std::future_status::ready); }

 private:
  void serve(int buffers, const std::vector<Answer>& answers) {
    const spi::UniqueFd socket(::accept4(listens_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::vector<std::byte> question(largest_question);
    EXPECT_GT(::recv(socket.get(), question.data(), question.size(), 0), 0);
    auto [mine, theirs] = ipc::Channel::make_sockets();
    const int file = theirs.get();
    EXPECT_GE(detail::send_packet(socket.get(), encode(Answer(Welcome{protocol_version})), {&file, 1}, true), 0);
    theirs.reset();
    ipc::Channel channel(std::move(mine));
    const Stream stream(host_device());
    const Buffer buffer = host::make_shared_resource()->allocate(64, stream);
    const std::vector<std::byte> of_no_question(sizeof(std::uint32_t));
    for (int i = 0; i < buffers; ++i) channel.send(buffer, stream, of_no_question, limit);
    for (const Answer& answer : answers) {
      if (detail::send_packet(socket.get(), encode(answer), {}, true) < 0) break;
      while (::recv(socket.get(), question.data(), question.size(), MSG_DONTWAIT) > 0) {
      }
    }
    said_.set_value();
    while (::recv(socket.get(), question.data(), question.size(), 0) > 0) {
    }
  }

  spi::UniqueFd listens_;
  std::promise<void> said_;
  std::optional<Thread> thread_;
};

TEST(NamesTalkativeServer, EarlierAnswersEndWithTheTimeLimit) {
  const Folder folder;
  const std::string path = folder / "server";
  std::vector<Answer> answers(too_many, Refused{0, Reason::unknown_name, "to an earlier question"});
  answers.emplace_back(Names{1, false, {}});
  TalkativeServer server(path, 0, std::move(answers));
  ipc::Client client(path, limit);
  server.await();
  EXPECT_ERROR(client.list("*", 0ms), Errc::timed_out, "ipc::Client: the server answers earlier questions only");
}

TEST(NamesTalkativeServer, BuffersThatNobodyAskedForEndWithTheTimeLimit) {
  const Folder folder;
  const std::string path = folder / "server";
  TalkativeServer server(path, too_many, {});
  ipc::Client client(path, limit);
  server.await();
  const Stream stream(host_device());
  EXPECT_ERROR(client.get("a", stream, 0ms), Errc::timed_out, "in time");
}

/// What ends a wait, as a signal does in Python.
struct Interrupted {};

class NamesInterruption : public testing::Test {
 protected:
  /// Let a client ask for "a", and expect that its wait ends.
  void expect_interrupted(std::vector<Answer> answers) const {
    TalkativeServer server(path_, 0, std::move(answers));
    ipc::Client client(path_, limit);
    const Stream stream(host_device());
    const spi::Interruptible here([] { throw Interrupted(); });
    EXPECT_THROW((void)client.get("a", stream, limit), Interrupted);
  }

 private:
  const Folder folder_;
  const std::string path_ = folder_ / "server";
};

TEST_F(NamesInterruption, EndsAWaitForABufferThatDoesNotCome) {
  ipc::Listing listing;
  listing.name = "a";
  listing.layout = Layout::compact(u8, {64});
  listing.bytes = 64;
  std::vector<Answer> answers;
  answers.emplace_back(GotTensor{1, listing});
  expect_interrupted(std::move(answers));
}

// More answers than the client hears in its time.
TEST_F(NamesInterruption, EndsAWaitForABusyServer) {
  std::vector<Answer> answers;
  for (std::uint32_t i = 1; i <= 2000; ++i) answers.emplace_back(Refused{i, Reason::busy, "busy"});
  expect_interrupted(std::move(answers));
}

/// Return the answers to the questions of a client that asks until the list ends.
template <class List, class MakeEntry>
std::vector<Answer> endless_list(std::size_t entries, MakeEntry make_entry) {
  std::vector<Answer> answers;
  List list{1, true, {}};
  std::size_t size = list_overhead;
  for (std::size_t i = 0; i < entries; ++i) {
    auto entry = make_entry(i);
    if (size + encoded_size(entry) > largest_answer) {
      const auto next = list.request + 1;
      answers.emplace_back(std::exchange(list, {next, true, {}}));
      size = list_overhead;
    }
    size += encoded_size(entry);
    list.all.push_back(std::move(entry));
  }
  list.more = false;
  answers.emplace_back(std::move(list));
  return answers;
}

TEST(NamesTalkativeServer, FillsNobodysMemoryWithNames) {
  const Folder folder;
  const std::string path = folder / "server";
  TalkativeServer server(path, 0, endless_list<Names>(131073, [](std::size_t i) {
                           ipc::Listing listing;
                           listing.name = std::to_string(1000000 + i);
                           return listing;
                         }));
  ipc::Client client(path, limit);
  EXPECT_ERROR(client.list("*", limit), Errc::corrupt_descriptor, "more than 131072 names");
}

TEST(NamesTalkativeServer, FillsNobodysMemoryWithClients) {
  const Folder folder;
  const std::string path = folder / "server";
  TalkativeServer server(path, 0, endless_list<Guests>(8193, [](std::size_t i) {
                           return ipc::Guest{i + 1, 0, true, false, {}};
                         }));
  ipc::Client client(path, limit);
  EXPECT_ERROR(client.guests(limit), Errc::corrupt_descriptor, "more than 8192 clients");
}

TEST(NamesTalkativeServer, FillsNobodysMemoryWithLoans) {
  const Folder folder;
  const std::string path = folder / "server";
  TalkativeServer server(path, 0, endless_list<Guests>(1048578, [](std::size_t i) {
                           return ipc::Guest{1, 0, true, false, {ipc::Loan{"a", i + 1, 1, 1}}};
                         }));
  ipc::Client client(path, limit);
  EXPECT_ERROR(client.guests(limit), Errc::corrupt_descriptor, "more than 1048576 loans");
}

}  // namespace
}  // namespace weir::test
