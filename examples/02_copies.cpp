// SPDX-License-Identifier: Apache-2.0
// Copy between memories of any two devices, whole and in part.
#include <cstdio>
#include <vector>

#include "weir/weir.hpp"

int main() {
  constexpr std::size_t bytes = 1 << 16;
  const weir::Stream host{weir::host_device()};
  weir::Buffer origin = weir::make_resource(weir::host_device())->allocate(bytes, host);
  for (std::size_t i = 0; i < bytes; ++i) origin.host_data()[i] = static_cast<std::byte>(i % 251);

  int wrong = 0;
  for (const weir::Device& device : weir::devices()) {
    const weir::Stream stream{device};
    const weir::ResourcePtr memory = weir::make_resource(device);

    weir::Buffer there = memory->allocate(bytes, stream);
    there.copy_from(origin, stream);
    weir::Buffer twin = there.copy_to(stream);  // as much again from the same resource
    weir::Buffer half = memory->allocate(bytes / 2, stream);
    twin.copy_to(half, 0, bytes / 2, bytes / 2, stream);  // the second half of it

    std::vector<std::byte> back(half.size());
    half.copy_to(back, stream);
    stream.synchronize();
    const bool right = back[0] == origin.host_data()[bytes / 2] && back.back() == origin.host_data()[bytes - 1];
    std::printf("host -> %s -> %s -> host: %s\n", device.id().c_str(), device.id().c_str(), right ? "right" : "wrong");
    wrong += !right;
  }
  return wrong;
}
