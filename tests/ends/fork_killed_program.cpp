// SPDX-License-Identifier: Apache-2.0
// Processes that are killed and leave children behind, which have copies of their connections: fork_killed_program
// host:0.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "busy_pipe.hpp"
#include "folder.hpp"
#include "forking.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

constexpr std::chrono::seconds limit{15};

// A process that runs `body`, which calls `die` when all is there. At kill() it forks a child, and is killed by itself.
// The child lives as long as this object.
class Killed {
 public:
  explicit Killed(const std::function<void(const std::function<void()>& die)>& body)
      : process_(fork_child([&] {
          body([&] {
            await(kill_);
            (void)fork_child([&] { await(end_); });
            (void)::raise(SIGKILL);
          });
        })) {}
  void kill() {
    kill_ = {};
    int status = 0;
    require(::waitpid(process_, &status, 0) == process_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
            "the process was killed");
  }

 private:
  using Pipe = std::pair<spi::UniqueFd, spi::UniqueFd>;
  // Until the other process closes its end. Everybody else has to close theirs.
  static void await(Pipe& pipe) {
    pipe.second.reset();
    char byte = 0;
    require(::read(pipe.first.get(), &byte, 1) == 0, "the other process goes on");
  }

  Pipe kill_ = pipe_pair(), end_ = pipe_pair();
  const pid_t process_;
};

Buffer shared_buffer(const Stream& stream) {
  return make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(small, stream);
}

void clients() {
  const Folder folder;
  const Stream stream(host_device());
  ipc::Server server(folder / "server");
  server.publish("a", shared_buffer(stream), stream);
  Killed killed([&](const auto& die) {
    ipc::Client client(folder / "server");
    const Tensor held = client.get("a", Stream(host_device()));
    die();
  });
  require_soon("a client",
               [&] { return !server.stats().clients.empty() && !server.stats().clients.front().loans.empty(); });
  killed.kill();
  require_soon("the server notices", [&] { return server.stats().clients.empty(); });
}

void servers() {
  const Folder folder;
  Killed killed([&](const auto& die) {
    const Stream stream(host_device());
    ipc::Server server(folder / "server");
    server.publish("a", shared_buffer(stream), stream);
    die();
  });
  std::optional<ipc::Client> client;
  require_soon("a server", [&] {
    try {
      client.emplace(folder / "server");
    } catch (const Error&) {  // not yet
    }
    return client.has_value();
  });
  killed.kill();
  require_error("the client asks", Errc::peer_gone, "gone", [&] { (void)client->list(); });
}

void channels() {
  auto [here, there] = ipc::Channel::make_sockets();
  Killed killed([&](const auto& die) {
    const Stream stream(host_device());
    ipc::Channel channel(std::move(there));
    channel.send(shared_buffer(stream), stream);
    die();
  });
  there.reset();
  ipc::Channel channel(std::move(here));
  const Stream stream(host_device());
  (void)channel.receive(stream, limit);
  killed.kill();
  require_error("the receiver waits", Errc::peer_gone, "", [&] { (void)channel.receive(stream, limit); });
}

void exporters() {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  const spi::UniqueFd here(ends[0]);
  spi::UniqueFd there(ends[1]);
  Killed killed([&](const auto& die) {
    const Stream stream(host_device());
    const Buffer buffer = shared_buffer(stream);
    stream.wait(Latch().event);
    ipc::send(there.get(), buffer.ipc_descriptor(stream));
    die();
  });
  there.reset();
  const Stream stream(host_device());
  const Buffer opened = ipc::open(ipc::receive(here.get(), limit), stream);
  const Event ready = stream.record();
  set_failure_sink([](const Failure&) noexcept {});  // it is told of the lost stream
  killed.kill();
  require(ready.wait(limit) == WaitStatus::lost, "the importer notices");
}

// What a holder keeps is given back although the child has had a copy.
void holders() {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  const Folder folder;
  Killed killed([&](const auto& die) {
    ipc::Holder holder(folder / "holder");
    std::thread([&] { holder.run(); }).detach();
    die();
  });
  const Stream stream(host_device());
  const PoolPtr pool =
      make_pool(host_device(),
                {.limit = bytes, .segment_bytes = bytes, .patience = std::chrono::milliseconds{1}, .exportable = true});
  std::optional<ipc::SetWriter> writer;
  require_soon("a holder", [&] {
    try {
      writer.emplace(folder / "holder", "set");
    } catch (const Error&) {  // not yet
    }
    return writer.has_value();
  });
  {
    const Tensor tensor(pool->allocate(bytes, stream), Layout::compact(u8, {bytes}));
    writer->add("tensor", tensor, stream);
    writer->commit(limit);
  }
  require(!pool->try_allocate(bytes, stream), "the holder has the memory");
  killed.kill();
  require_soon("the memory is back", [&] { return pool->try_allocate(bytes, stream).has_value(); });
}

}  // namespace
}  // namespace weir::test

int main() {
  weir::test::clients();
  weir::test::servers();
  weir::test::channels();
  weir::test::holders();
  weir::test::exporters();
  weir::test::say_done();
  return 0;
}
