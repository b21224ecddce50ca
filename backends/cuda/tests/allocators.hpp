// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the tests of cuda::Allocator share.

#include <array>
#include <memory>

#include "native.hpp"
#include "weir/buffer.hpp"
#include "weir/interop/cuda_allocator.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {

inline constexpr std::size_t page = std::size_t{2} << 20U;

class Allocators : public CudaTest {
 protected:
  /// Over memory that the driver gives without waiting for the device.
  [[nodiscard]] static PoolPtr pool(std::size_t limit = 64 * page) {
    return make_pool(cuda::make_vmm_resource(gpu()), {.limit = limit, .segment_bytes = page, .paged = false});
  }
  static void fill(void* address, unsigned char value, const Stream& stream) {
    auto view = Buffer::from_handle(
        gpu(), reinterpret_cast<std::uintptr_t>(address), page, [] {}, stream);
    view.fill(value, stream);
  }
  static unsigned char first_byte(void* address, const Stream& stream) {
    auto view = Buffer::from_handle(
        gpu(), reinterpret_cast<std::uintptr_t>(address), page, [] {}, stream);
    std::array<std::byte, 1> byte{};
    view.copy_to(byte, stream);
    stream.synchronize();
    return std::to_integer<unsigned char>(byte[0]);
  }
};

}  // namespace weir::cuda_test
