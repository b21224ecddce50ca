// SPDX-License-Identifier: Apache-2.0
// A program that writes a trace of what it does: trace_program DEVICE FILE WHAT.
//   ends     ten buffers of 1000 to 10000 bytes on two streams, closed by two threads
//   fails    one more, which nobody can have
//   waits    five buffers, then says "ready" on the socket 3 and waits for an answer that does not come

#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "spawn.hpp"
#include "weir/weir.hpp"

namespace {

constexpr std::size_t step = 1000;

void end(const weir::ResourcePtr& resource, const weir::Device& device) {
  const weir::Stream first(device), second(device);
  std::vector<weir::Buffer> buffers;
  for (std::size_t i = 1; i <= 10; ++i)
    buffers.push_back(resource->allocate(i * step, i % 2 ? first : second));
  buffers[0].fill(std::byte{1}, second);
  std::thread([&buffers] {
    for (std::size_t i = 0; i < 5; ++i) buffers[i].close();
  }).join();
  buffers[9].close(first);  // allocated on the second
  second.synchronize();
}

void wait(const weir::ResourcePtr& resource, const weir::Device& device) {
  const weir::Stream stream(device);
  std::vector<weir::Buffer> buffers;
  for (std::size_t i = 1; i <= 5; ++i) buffers.push_back(resource->allocate(i * step, stream));
  weir::test::write_line(weir::test::Child::socket_in_child, "ready");
  (void)weir::test::read_line(weir::test::Child::socket_in_child);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const weir::Device device = weir::device(argv[1]);
  const std::string_view what = argv[3];
  const auto at_once = what == "waits" ? weir::LoggingOptions{.buffer_bytes = 0} : weir::LoggingOptions{};
  const weir::ResourcePtr resource = weir::make_logging(weir::make_resource(device), argv[2], at_once);
  if (what == "waits") {
    wait(resource, device);
    return 0;
  }
  end(resource, device);
  if (what == "fails" && resource->try_allocate(std::size_t{1} << 50, weir::Stream(device))) return 3;
  std::puts("done");
  return 0;
}
