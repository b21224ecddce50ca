// SPDX-License-Identifier: Apache-2.0
// Forks while other threads wait in calls of connections, or are in the middle of changing them:
// fork_waits_program <case>.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "folder.hpp"
#include "forking.hpp"
#include "waiting.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// A child, and a pipe whose end tells it to end.
class Child {
 public:
  /// The child runs `body`, and then lives until this object ends.
  template <class Body>
  explicit Child(Body body) {
    require(::pipe2(ends_, O_CLOEXEC) == 0, "a pipe");
    require(::pipe2(done_, O_CLOEXEC) == 0, "a pipe");
    id_ = fork_child([&] {
      ::close(ends_[1]);
      body();
      ::close(done_[1]);
      char byte = 0;
      require(::read(ends_[0], &byte, 1) == 0, "the parent is done");
    });
    ::close(done_[1]);
    char byte = 0;
    require(::read(done_[0], &byte, 1) == 0, "the child has come so far, or has ended");
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::close(ends_[1]);
    join_child(id_);
  }

 private:
  int ends_[2], done_[2];
  pid_t id_;
};

ResourcePtr memfd() { return make_resource(host_device(), MemoryKind::shared, {.exportable = true}); }

// One thread waits at the socket, and one for that thread.
void receivers() {
  const Stream stream(host_device());
  const ResourcePtr resource = memfd();
  auto [here, there] = ipc::Channel::make_sockets();
  std::optional<ipc::Channel> channel(std::move(here)), peer(std::move(there));
  const Buffer lent = resource->allocate(small, stream);
  peer->send(lent, stream);
  const ResourcePtr borrowed = channel->receive(stream).buffer.memory_resource();  // the connection keeps its segment
  const auto receive = [&] {
    require_error("the parent closes", Errc::closed, "closed", [&] { (void)channel->receive(Stream(host_device())); });
  };
  const Waiting first(receive), second(receive);
  in_child([&] {
    require_error("the child asks", Errc::unsupported, "parent", [&] { (void)channel->stats(); });
    require_error("the child receives", Errc::unsupported, "parent", [&] { (void)channel->receive(stream, 100ms); });
    channel.reset();
    peer.reset();
    require(borrowed->stats().reserved == small, "what the connection keeps is left alone");
    use_host();
  });
  require(channel->stats().lent == 0, "the parent's channel goes on");
  channel->close();
}

// Children that meet a lock, a half-made packet, or files that were opened during the fork.
void in_the_middle() {
  const Stream stream(host_device());
  const ResourcePtr resource = memfd();
  auto [here, there] = ipc::Channel::make_sockets();
  std::optional<ipc::Channel> channel(std::move(here)), peer(std::move(there));
  std::atomic<bool> over{false};
  const auto busy = [&](auto&& call) {
    return std::thread([&over, call] {
      const Stream own(host_device());
      while (!over) {
        try {
          call(own);
        } catch (const Error& error) {  // the other side is slow, or has ended
          require(error.code() == Errc::timed_out, error.what());
        }
      }
    });
  };
  std::thread threads[] = {busy([&](const Stream& own) { channel->send(resource->allocate(256, own), own, {}, 10ms); }),
                           busy([&](const Stream& own) { (void)peer->receive(own, 10ms); }),
                           busy([&](const Stream&) { (void)channel->stats(); }),
                           busy([&](const Stream&) { (void)peer->stats(); })};
  for (int i = 0; i < 100; ++i) {
    in_child([&] {
      require_error("the child asks", Errc::unsupported, "parent", [&] { (void)channel->stats(); });
      channel.reset();
      peer.reset();
      use_host();
    });
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

void subscribers() {
  const Folder folder;
  const std::string path = folder / "server";
  std::optional<ipc::Server> server(path);
  ipc::Client client(path);
  std::optional<ipc::Subscription> news(client.subscribe());
  const auto listen = [&] { require_error("the server ends", Errc::peer_gone, "gone", [&] { (void)news->next(); }); };
  const Waiting first(listen), second(listen);
  in_child([&] {
    require_error("the child listens", Errc::unsupported, "parent", [&] { (void)news->next(100ms); });
    news.reset();
    use_host();
  });
  server.reset();
}

// One thread waits for the holder, and one for that thread.
void readers_and_writers() {
  const Folder folder;
  const std::string path = folder / "holder";
  const Stream stream(host_device());
  const ResourcePtr resource = memfd();
  std::optional<ipc::Holder> holder(std::in_place, path);
  std::thread serves([&] { holder->run(); });
  {
    std::optional<ipc::SetReader> reader(std::in_place, path, "a"), idle(std::in_place, path, "a");
    std::optional<ipc::SetWriter> writer(std::in_place, path, "a");
    const Tensor tensor(resource->allocate(small, stream), Layout::compact(u8, {small}));
    const auto open = [&] { require(reader->open(Stream(host_device())).epoch != 0, "the parent opens"); };
    const Waiting first(open), second(open);
    {
      const Child child([&] {
        require_error("the child opens", Errc::unsupported, "parent", [&] { (void)reader->open(stream, 100ms); });
        require_error("the child adds", Errc::unsupported, "parent", [&] { writer->add("t", tensor, stream); });
        require_error("the child commits", Errc::unsupported, "parent", [&] { (void)writer->commit(100ms); });
        require_error("the child serves", Errc::unsupported, "parent", [&] { holder->run(); });
        require_error("the child asks", Errc::unsupported, "parent", [&] { (void)holder->stats(); });
        holder->stop();
        holder.reset();
        reader.reset();
        writer.reset();
        idle.reset();
        use_host();
      });
      require(holder->stats().connections == 3, "the parent's connections go on");
      idle.reset();
      require_soon("the holder notices that a reader has left, though the child lives",
                   [&] { return holder->stats().connections == 2; });
    }
    const ipc::SetReader late(path, "a");  // the parent's holder is still there
    writer->add("t", tensor, stream);
    (void)writer->commit();  // both readers open the set
  }
  holder->stop();
  serves.join();
}

constexpr Case cases[] = {{"receivers", receivers},
                          {"in_the_middle", in_the_middle},
                          {"subscribers", subscribers},
                          {"readers_and_writers", readers_and_writers}};

}  // namespace
}  // namespace weir::test

int main(int count, char** arguments) { return weir::test::run_case(weir::test::cases, count, arguments); }
