// SPDX-License-Identifier: Apache-2.0
// Functions that return memory which CUDA does not know.

#include "weir/callback_resource.hpp"

#include <new>

#include "expect.hpp"
#include "native.hpp"
#include "weir/buffer.hpp"

namespace weir::cuda_test {
namespace {

using CallbackOfCuda = CudaTest;

TEST_F(CallbackOfCuda, MemoryThatTheDeviceDoesNotKnowGoesBack) {
  int lent = 0;
  constexpr std::align_val_t alignment{256};
  const auto memory = make_callback_resource(gpu(), {.allocate =
                                                         [&](std::size_t bytes, const Stream&) {
                                                           ++lent;
                                                           return ::operator new(bytes, alignment);
                                                         },
                                                     .deallocate =
                                                         [&](void* address, std::size_t) {
                                                           --lent;
                                                           ::operator delete(address, alignment);
                                                         }});
  const Stream stream(gpu());
  EXPECT_ERROR((void)memory->allocate(1000, stream), Errc::invalid_argument, "not memory that CUDA knows");
  EXPECT_EQ(lent, 0);
  EXPECT_EQ(memory->stats().reserved, 0U);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir::cuda_test
