// SPDX-License-Identifier: Apache-2.0
// Allocate on the best device, fill, read back.
#include <cstdio>
#include <vector>

#include "weir/weir.hpp"

int main() {
  const weir::Device device = weir::best_device();
  const weir::Stream stream{device};
  const weir::ResourcePtr memory = weir::make_resource(device);

  weir::Buffer buffer = memory->allocate(1 << 20, stream);
  buffer.fill(std::byte{42}, stream);  // enqueued; returns at once

  std::vector<std::byte> bytes(buffer.size());
  buffer.copy_to(bytes, stream);
  stream.synchronize();  // the only call here that waits

  buffer.close(stream);  // the memory is reused after everything on the stream; optional, the destructor does it
  std::printf("%zu bytes of %s on %s hold %d\n", bytes.size(), memory->name().c_str(), device.id().c_str(),
              std::to_integer<int>(bytes.back()));
  return bytes.front() == std::byte{42} && bytes.back() == std::byte{42} ? 0 : 1;
}
