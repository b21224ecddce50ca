// SPDX-License-Identifier: Apache-2.0
// What a project that uses weir compiles first.
#include <cstddef>
#include <cstdio>

#include <weir/version.hpp>
#include <weir/weir.hpp>
#if !WEIR_HAS_HOST
#error "weir/version.hpp does not say that there is a host backend"
#endif

int main() {
  const weir::Device device = weir::host_device();
  const weir::Stream stream{device};
  const weir::ResourcePtr resource = weir::make_resource(device);
  weir::Buffer buffer = resource->allocate(64, stream);
  buffer.fill(std::byte{42}, stream);
  stream.synchronize();
  const bool right = static_cast<const std::byte*>(buffer.host_data())[63] == std::byte{42};
  for (const weir::BackendInfo& backend : weir::backends()) {
    std::printf("%s: %zu devices %s\n", backend.name.c_str(), backend.devices.size(),
                backend.unavailable_because.c_str());
  }
  std::printf("weir %s: %s\n", WEIR_VERSION_STRING, right ? "ok" : "wrong bytes");
  return right ? 0 : 1;
}
