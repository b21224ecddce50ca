// SPDX-License-Identifier: Apache-2.0
// The demo's own process, while it shares by name, by ring and by set.
#include "demo_sharing.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "demo_data.hpp"
#include "peer_process.hpp"

namespace weir::cli {
namespace {

/// A folder for the sockets of one way.
class Folder {
 public:
  Folder() {
    std::string path = std::filesystem::temp_directory_path() / "weir-demo-XXXXXX";
    if (!::mkdtemp(path.data())) throw std::system_error(errno, std::generic_category(), "mkdtemp");
    socket_ = path + "/socket";
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(std::filesystem::path(socket_).parent_path(), ignored);
  }
  [[nodiscard]] const std::string& socket() const noexcept { return socket_; }

 private:
  std::string socket_;
};

PeerProcess visitor(const Program& program, const SharedMemory& memory, std::string_view what, const std::string& path,
                    int type = SOCK_STREAM) {
  return {program, {visitor_command, what, memory.device.id(), to_string(memory.kind), path}, type, peer_socket};
}

template <class Share>
bool succeeds(const char* way, const SharedMemory& memory, Share share) {
  try {
    return share();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weir: %s, %s: %s\n", memory.device.id().c_str(), way, error.what());
    return false;
  }
}

/// The producer's half of the ring; closing it ends the consumers.
bool publish_all(ipc::RingProducer& ring, const Stream& stream) {
  for (unsigned i = 0; i < demo_frames; ++i) {
    Buffer slot = ring.acquire(stream, patience);
    slot.copy_from(pattern(i, demo_frame_bytes), stream);
    (void)ring.publish(std::move(slot), stream);
  }
  const bool all = ring.drain(patience);
  ring.close();
  return all;
}

/// Wait for the line that the holder says once it serves.
bool serves(const PeerProcess& holder) {
  for (char byte = holder.answer(); byte != '\n'; byte = holder.answer()) {
    if (byte == 0) return false;
  }
  return true;
}

}  // namespace

bool share_by_name(const SharedMemory& memory, const Program& program) {
  return succeeds("by name", memory, [&] {
    const Folder folder;
    Buffer buffer = memory.resource()->allocate(demo_bytes, memory.stream);
    buffer.copy_from(pattern(shared_seed, demo_bytes), memory.stream);
    ipc::Server server(folder.socket());
    server.publish(demo_name, buffer, memory.stream);
    PeerProcess client = visitor(program, memory, "get", folder.socket());
    return client.finish() && holds(buffer, pattern(changed_seed, demo_bytes), memory.stream);
  });
}

bool share_by_ring(const SharedMemory& memory, const Program& program) {
  return succeeds("by ring", memory, [&] {
    ipc::RingProducer ring(memory.resource(), {.slots = 6, .slot_bytes = demo_frame_bytes});
    PeerProcess one = visitor(program, memory, "watch", "", SOCK_SEQPACKET);
    PeerProcess other = visitor(program, memory, "watch", "", SOCK_SEQPACKET);
    (void)ring.add_consumer(one.take_socket());
    (void)ring.add_consumer(other.take_socket());
    const bool all = publish_all(ring, memory.stream);
    const bool first = one.finish(), second = other.finish();
    return all && first && second;
  });
}

bool share_by_set(const SharedMemory& memory, const Program& program) {
  return succeeds("by set", memory, [&] {
    const Folder folder;
    PeerProcess holder(program, {"hold", folder.socket()}, SOCK_STREAM, STDOUT_FILENO);
    if (!serves(holder)) return false;
    PeerProcess maker = visitor(program, memory, "make", folder.socket());
    const bool made = maker.answer() == peer_agrees;
    maker.signal(SIGKILL);
    const bool killed = maker.end() == -SIGKILL;
    bool right = made && killed;
    if (right) {
      const ipc::HeldSet set = ipc::SetReader(folder.socket(), "set").open(memory.stream, patience);
      right = set.tensors.size() == 1 &&
              holds(set.tensors.at(demo_name).buffer(), pattern(shared_seed, demo_bytes), memory.stream);
    }
    holder.signal(SIGTERM);
    return holder.finish() && right;
  });
}

}  // namespace weir::cli
