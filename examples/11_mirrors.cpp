// SPDX-License-Identifier: Apache-2.0
// The same bytes on several streams and devices; a copy on the host beside device memory; and an array that grows.
#include <cstdio>
#include <numeric>
#include <vector>

#include "weir/weir.hpp"

int main() {
  std::vector<float> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0.0F);

  // Two streams for each device, with a copy for each stream.
  std::vector<weir::Stream> streams;
  for (const weir::Device& device : weir::devices())
    for (int i = 0; i < 2; ++i) streams.emplace_back(device);
  weir::MirroredBuffer table(numbers.size() * sizeof(float), streams);
  table.write(std::as_bytes(std::span(numbers)));  // all of them
  const std::size_t chosen = table.any();          // where nothing is pending, if there is such a one
  table.copy(chosen).fill(2.5F, table.stream(chosen));
  table.broadcast(chosen);
  std::vector<float> all(numbers.size() * table.copies());
  table.read_all(std::as_writable_bytes(std::span(all)));
  table.synchronize();
  const bool equal = all == std::vector<float>(all.size(), 2.5F);

  // What the host wrote goes to the device, in part or whole, and comes back.
  const weir::Device device = weir::best_device();
  const weir::Stream stream{device};
  weir::HostMirror mirror(weir::make_resource(device)->allocate(4096, stream), stream);
  mirror.span<int>()[0] = 41;
  mirror.sync_to_device(0, sizeof(int), stream);
  mirror.device().fill(42, 4, 4, stream);  // stands for a kernel
  mirror.sync_to_host(stream);
  stream.synchronize();
  const int sum = mirror.span<int>()[0] + mirror.span<int>()[1];

  weir::DeviceVector<float> found(weir::make_pool(device), 0, stream);
  for (int i = 0; i < 3; ++i) found.push(numbers, stream);
  const float last = found.wait_for_element(found.size() - 1, stream);

  std::printf("%zu copies, %s; %d from %s; %zu numbers in memory for %zu, the last one %g\n", table.copies(),
              equal ? "equal" : "different", sum, mirror.is_one_memory() ? "one memory" : "two memories", found.size(),
              found.capacity(), last);
  return equal && sum == 83 && found.size() == 3000 && last == 999 ? 0 : 1;
}
