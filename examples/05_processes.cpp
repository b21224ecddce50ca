// SPDX-License-Identifier: Apache-2.0
// Share a buffer with a second process. Spawned, not forked: a GPU driver may be loaded.
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "weir/host.hpp"
#include "weir/weir.hpp"

namespace {

int child(int socket) {
  const weir::Stream stream{weir::host_device()};
  weir::Buffer buffer = weir::ipc::open(weir::ipc::receive(socket), stream);
  stream.synchronize();  // the parent's work on it is complete
  std::printf("child:  opened %zu bytes, found %d\n", buffer.size(), std::to_integer<int>(buffer.host_data()[0]));
  buffer.fill(std::byte{2}, stream);
  stream.synchronize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return child(std::stoi(argv[1]));

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) != 0) return 1;
  std::string program = argv[0], socket = std::to_string(ends[1]);
  char* const arguments[] = {program.data(), socket.data(), nullptr};
  pid_t id = 0;
  if (posix_spawn(&id, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) return 1;
  close(ends[1]);

  const weir::Stream stream{weir::host_device()};
  weir::Buffer buffer = weir::host::make_shared_resource()->allocate(1 << 20, stream);
  buffer.fill(std::byte{1}, stream);
  weir::ipc::send(ends[0], buffer.ipc_descriptor(stream));

  int status = 0;
  if (waitpid(id, &status, 0) != id || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
  std::printf("parent: the child left %d\n", std::to_integer<int>(buffer.host_data()[0]));
  return buffer.host_data()[buffer.size() - 1] == std::byte{2} ? 0 : 1;
}
