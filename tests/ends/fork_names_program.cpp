// SPDX-License-Identifier: Apache-2.0
// Forks with a server of named tensors and its clients: fork_names_program host:0.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "folder.hpp"
#include "forking.hpp"
#include "weir/client.hpp"
#include "weir/holder.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

std::function<void()> once_locked;

}  // namespace
}  // namespace weir::test

// Stands in front of the system's.
extern "C" int flock(int file, int operation) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_flock, file, operation));
  auto& then = weir::test::once_locked;
  if (result == 0 && operation != LOCK_UN && then) std::exchange(then, nullptr)();
  return result;
}

namespace weir::test {
namespace {

// The child has neither the server nor the connections, and keeps nobody from noticing their ends.
void names_stay_the_parents() {
  const Folder folder;
  const std::string path = folder / "server";
  const Stream stream(host_device());
  const auto resource = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  const Buffer buffer = resource->allocate(small, stream);
  std::optional<ipc::Server> server(path);
  server->publish("a", buffer, stream);
  std::optional<ipc::Client> client(path), other(path);
  auto news = other->subscribe();
  std::optional<Tensor> held(client->get("a", stream));
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC) == 0, "a pipe");
  const pid_t child = fork_child([&] {
    ::close(ends[1]);
    require_error("the child publishes", Errc::unsupported, "parent", [&] { server->publish("b", buffer, stream); });
    require_error("the child asks", Errc::unsupported, "parent", [&] { (void)client->list(); });
    require_error("the child listens", Errc::unsupported, "parent", [&] { (void)news.next(); });
    held.reset();
    client.reset();
    server.reset();
    char byte = 0;
    require(::read(ends[0], &byte, 1) == 0, "the parent is done");
    use_host();
  });
  require(client->list().size() == 1, "the parent's connection works");
  require(server->stats().clients.at(0).loans.size() == 1, "the child gave nothing back");
  held.reset();
  client.reset();
  require_soon("the server notices that a client has left, though the child lives",
               [&] { return server->stats().clients.size() == 2; });
  server.reset();
  require_error("the parent listens", Errc::peer_gone, "gone", [&] { (void)news.next(std::chrono::seconds(20)); });
  require_error("the parent connects", Errc::peer_gone, "no server", [&] { ipc::Client late(path); });
  ::close(ends[1]);
  join_child(child);
}

void leave_dead_server(const std::string& path) {
  const pid_t server = fork_child([&] {
    const ipc::Server made(path);
    (void)::raise(SIGKILL);
  });
  require(::waitpid(server, nullptr, 0) == server, "the server was killed");
}

// A child has copies of the files that others lock while it is forked, and lives on. One of the holders is killed.
void locks_stay_the_parents() {
  const Folder folder;
  const std::string server = folder / "server", holder = folder / "holder";
  int ends[2], begun[2];
  require(::pipe2(ends, O_CLOEXEC) == 0 && ::pipe2(begun, O_CLOEXEC) == 0, "two pipes");
  const auto fork_on = [&] {  // the child has closed its copies once it runs
    char byte = 0;
    (void)fork_child([&] {
      ::close(ends[1]);
      (void)!::write(begun[1], &byte, 1);
      (void)!::read(ends[0], &byte, 1);
    });
    require(::read(begun[0], &byte, 1) == 1, "the child runs");
  };
  leave_dead_server(server);
  once_locked = fork_on;
  { const ipc::Server first(server); }
  require(!once_locked, "a server takes the place of a dead one under a lock");
  leave_dead_server(server);
  const ipc::Server next(server);

  once_locked = fork_on;
  { const ipc::Holder first(holder); }
  require(!once_locked, "a holder locks its path");
  const pid_t killed = fork_child([&] {
    once_locked = fork_on;
    const ipc::Holder made(holder);
    (void)::raise(SIGKILL);
  });
  require(::waitpid(killed, nullptr, 0) == killed, "the holder was killed");
  const ipc::Holder second(holder);
  ::close(ends[1]);
}

}  // namespace
}  // namespace weir::test

int main() {
  weir::test::names_stay_the_parents();
  weir::test::locks_stay_the_parents();
  weir::test::say_done();
  return 0;
}
