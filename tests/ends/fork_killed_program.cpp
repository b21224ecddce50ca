// SPDX-License-Identifier: Apache-2.0
// Processes that are killed and leave children behind, which have copies of their connections: fork_killed_program
// host:0.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "folder.hpp"
#include "forking.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

using std::chrono::seconds;

constexpr seconds limit{15};

void await(const char* what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  bool there = condition();
  for (; !there && std::chrono::steady_clock::now() < deadline; there = condition()) std::this_thread::yield();
  require(there, what);
}

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
  static Pipe make_pipe() {
    int ends[2];
    require(::pipe2(ends, O_CLOEXEC) == 0, "a pipe");
    return {spi::UniqueFd(ends[0]), spi::UniqueFd(ends[1])};
  }
  // Until the other process closes its end. Everybody else has to close theirs.
  static void await(Pipe& pipe) {
    pipe.second.reset();
    char byte = 0;
    require(::read(pipe.first.get(), &byte, 1) == 0, "the other process goes on");
  }

  Pipe kill_ = make_pipe(), end_ = make_pipe();
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
  await("a client", [&] { return !server.stats().clients.empty() && !server.stats().clients.front().loans.empty(); });
  killed.kill();
  await("the server notices", [&] { return server.stats().clients.empty(); });
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
  await("a server", [&] {
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

}  // namespace
}  // namespace weir::test

int main() {
  weir::test::clients();
  weir::test::servers();
  weir::test::channels();
  weir::test::say_done();
  return 0;
}
