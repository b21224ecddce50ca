// SPDX-License-Identifier: Apache-2.0
// A server that crashes finds its weights in place. Here this process holds them; most programs leave that to
// `weir hold PATH`, which loads no GPU driver.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir/weir.hpp"

namespace {

// The first server loads the weights, which takes long, commits them, and crashes.
int serve(const std::string& path) {
  const weir::Device device = weir::host_device();
  const weir::Stream stream{device};
  const auto pool = weir::make_pool(weir::make_resource(device, weir::MemoryKind::shared, {.exportable = true}),
                                    {.exportable = true});
  weir::ipc::SetWriter writer(path, "weights");
  for (int layer = 0; layer < 100; ++layer) {
    weir::Buffer weights = pool->allocate(64 * 64 * sizeof(float), stream);
    weights.fill(static_cast<float>(layer), stream);
    writer.add("layer." + std::to_string(layer), weights.view(weir::f32, {64, 64}), stream);
  }
  writer.commit();
  return std::raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return serve(argv[1]);

  const auto folder = std::filesystem::temp_directory_path() / ("weir-held-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::string program = argv[0], path = folder / "socket";
  weir::ipc::Holder holder(path);
  std::thread holding([&] { holder.run(); });

  char* const arguments[] = {program.data(), path.data(), nullptr};
  pid_t server = 0;
  int status = 0;
  const bool crashed = posix_spawn(&server, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0 &&
                       waitpid(server, &status, 0) == server && WIFSIGNALED(status);

  // The next server has the whole set at once, and opens each segment once.
  const weir::Stream stream{weir::host_device()};
  const auto [epoch, tensors] = weir::ipc::SetReader(path, "weights").open(stream, std::chrono::seconds{10});
  const float last = tensors.at("layer.99").span<const float>()[4095];
  std::printf("epoch %llu: %zu tensors of a server that crashed; the last weight is %g\n",
              static_cast<unsigned long long>(epoch), tensors.size(), last);

  holder.stop();
  holding.join();
  std::filesystem::remove_all(folder);
  return crashed && tensors.size() == 100 && last == 99 ? 0 : 1;
}
