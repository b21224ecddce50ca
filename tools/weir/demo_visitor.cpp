// SPDX-License-Identifier: Apache-2.0
// The other processes of the demo: demo-visitor WAY DEVICE KIND PATH.
//   get     get the tensor of the server at PATH, check it and change it
//   watch   check every frame of the ring at the other end of the socket
//   make    commit a set to the holder at PATH, say so over the socket, and wait to be killed
#include <unistd.h>

#include <string>
#include <string_view>

#include "demo_data.hpp"
#include "demo_sharing.hpp"
#include "peer_process.hpp"

namespace weir::cli {
namespace {

bool get(const SharedMemory& memory, const std::string& path) {
  ipc::Client client(path, patience);
  Tensor tensor = client.get(demo_name, memory.stream, patience);
  if (!holds(tensor.buffer(), pattern(shared_seed, demo_bytes), memory.stream)) return false;
  tensor.buffer().copy_from(pattern(changed_seed, demo_bytes), memory.stream);
  memory.stream.synchronize();
  return true;
}

bool watch(const SharedMemory& memory) {
  ipc::RingConsumer ring{spi::UniqueFd(peer_socket)};
  for (unsigned i = 0; i < demo_frames; ++i) {
    const ipc::Frame frame = ring.next(memory.stream, patience);
    if (frame.sequence != i || frame.missed != 0) return false;
    if (!holds(frame.buffer, pattern(i, demo_frame_bytes), memory.stream)) return false;
  }
  return true;
}

bool make(const SharedMemory& memory, const std::string& path) {
  Buffer buffer = memory.resource()->allocate(demo_bytes, memory.stream);
  buffer.copy_from(pattern(shared_seed, demo_bytes), memory.stream);
  ipc::SetWriter writer(path, "set");
  writer.add(demo_name, buffer.view(u8, {static_cast<std::int64_t>(demo_bytes)}), memory.stream);
  (void)writer.commit(patience);
  char byte = peer_agrees;
  if (::write(peer_socket, &byte, 1) != 1) return false;
  return ::read(peer_socket, &byte, 1) == 1;  // it is killed here
}

}  // namespace

int demo_visitor(std::span<char*> arguments) {
  if (arguments.size() != 4) return 2;
  const std::string_view way = arguments[0];
  const Device chosen = device(arguments[1]);
  for (const KindInfo& known : chosen.kinds()) {
    if (to_string(known.kind) != arguments[2]) continue;
    const SharedMemory memory{chosen, known.kind, Stream(chosen)};
    const bool right = way == "get"     ? get(memory, arguments[3])
                       : way == "watch" ? watch(memory)
                                        : make(memory, arguments[3]);
    return right ? 0 : 1;
  }
  return 2;
}

}  // namespace weir::cli
