// SPDX-License-Identifier: Apache-2.0
// A camera's frames for two readers, in a process each. The camera writes into slots, and the readers see them there:
// nothing is copied. The slow reader misses frames, and is told how many.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <thread>

#include "weir/host.hpp"
#include "weir/weir.hpp"

namespace {

int reader(const char* name, int socket, int milliseconds) {
  const weir::Stream stream{weir::host_device()};
  weir::ipc::RingConsumer ring{weir::spi::UniqueFd{socket}};
  int frames = 0, missed = 0;
  try {
    for (;; ++frames) {
      const weir::ipc::Frame frame = ring.next(stream);
      stream.synchronize();  // the camera's work on it is complete
      if (frame.tensor().span<const std::uint8_t>().back() != frame.sequence) return 1;
      missed += static_cast<int>(frame.missed);
      std::this_thread::sleep_for(std::chrono::milliseconds{milliseconds});  // stands for work
    }
  } catch (const weir::Error& error) {
    std::printf("%s: %d frames, %d missed; %s\n", name, frames, missed, error.what());
    return error.code() == weir::Errc::peer_gone && frames != 0 ? 0 : 1;
  }
}

pid_t start_reader(weir::ipc::RingProducer& ring, std::string name, std::string milliseconds) {
  auto [mine, theirs] = weir::ipc::Channel::make_sockets();
  (void)ring.add_consumer(std::move(mine));
  if (fcntl(theirs.get(), F_SETFD, 0) != 0) return 0;  // inherited
  std::string program = "13_ring", socket = std::to_string(theirs.get());
  char* const arguments[] = {program.data(), name.data(), socket.data(), milliseconds.data(), nullptr};
  pid_t id = 0;
  return posix_spawn(&id, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0 ? id : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4) return reader(argv[1], std::stoi(argv[2]), std::stoi(argv[3]));

  const weir::Stream stream{weir::host_device()};
  const weir::Layout image = weir::Layout::compact(weir::u8, {480, 640, 3});
  weir::ipc::RingProducer ring{weir::host::make_shared_resource(),
                               {.policy = weir::ipc::RingPolicy::drop_oldest, .layout = image}};
  const pid_t ids[] = {start_reader(ring, "fast", "0"), start_reader(ring, "slow", "20")};
  for (std::uint8_t number = 0; number < 60; ++number) {
    weir::Tensor frame = ring.acquire_tensor(stream);
    frame.fill(number, stream);
    (void)ring.publish(std::move(frame), stream);
    std::this_thread::sleep_for(std::chrono::milliseconds{5});  // stands for the next picture
  }
  const bool all = ring.drain(std::chrono::seconds{30});
  ring.close();
  int bad = 0, status = 0;
  for (const pid_t id : ids) bad += id == 0 || waitpid(id, &status, 0) != id || status != 0;
  return all && bad == 0 ? 0 : 1;
}
