// SPDX-License-Identifier: Apache-2.0
// The second process of the demo.

#include <unistd.h>

#include <cstdio>

#include "commands.hpp"
#include "demo_data.hpp"

namespace weir::cli {
namespace {

char visit(ipc::Descriptor descriptor, const Stream& arrival) {
  Buffer buffer = ipc::open(std::move(descriptor), arrival);
  const Stream stream{buffer.device()};
  stream.wait(arrival.record());
  static const std::vector<std::byte> expected = pattern(shared_seed, demo_bytes);
  static const std::vector<std::byte> changed = pattern(changed_seed, demo_bytes);
  if (!holds(buffer, expected, stream)) return peer_disagrees;
  buffer.copy_from(changed, stream);
  stream.synchronize();
  return peer_agrees;
}

}  // namespace

int demo_peer(int fd) {
  const Stream arrival{host_device()};
  while (true) {
    char answer = peer_disagrees;
    try {
      answer = visit(ipc::receive(fd), arrival);
    } catch (const Error& e) {
      if (e.code() == Errc::peer_gone) return 0;
      std::fprintf(stderr, "weir: second process: %s\n", e.what());
    }
    if (write(fd, &answer, 1) != 1) return 1;
  }
}

}  // namespace weir::cli
