// SPDX-License-Identifier: Apache-2.0
// Every call is right whatever context is current, and leaves it as it was.
#include "bytes.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

class Context : public CudaTest {
 protected:
  // One of everything, on this thread.
  static void use_everything() {
    const Stream stream(gpu()), second(gpu());
    const Device of = gpu();
    for (const KindInfo& info : of.kinds()) {
      SCOPED_TRACE(to_string(info.kind));
      const auto resource = make_resource(gpu(), info.kind, {.exportable = info.exportable});
      Buffer a = resource->allocate(3000, stream);
      a.fill(std::uint64_t{0x0123456789abcdef}, stream);
      second.wait(stream.record());
      Buffer b = a.copy_to(second);
      bool called = false;
      second.call([&] { called = true; });
      const auto bytes = test::read(b, second);
      EXPECT_EQ(bytes.at(2999), std::byte{0x01});
      EXPECT_TRUE(called);
      a.close(second);
      b.close();
      (void)resource->trim(0);
    }
  }
};

TEST_F(Context, NoneCurrent) {
  const Current none(nullptr);
  use_everything();
  EXPECT_EQ(Current::now(), nullptr);
}

TEST_F(Context, PrimaryCurrent) {
  const Current current(primary());
  use_everything();
  EXPECT_EQ(Current::now(), primary());
}

TEST_F(Context, AnotherCurrent) {
  const OtherContext other;
  const Current current(other.get());
  use_everything();
  EXPECT_EQ(Current::now(), other.get());
}

TEST_F(Context, FailuresRestoreItToo) {
  const Current none(nullptr);
  const Stream stream(gpu());
  EXPECT_FALSE(cuda::make_device_resource(gpu())->try_allocate(std::size_t{1} << 50, stream));
  EXPECT_FALSE(cuda::make_vmm_resource(gpu())->try_allocate(std::size_t{1} << 50, stream));
  EXPECT_EQ(Current::now(), nullptr);
}

}  // namespace
}  // namespace weir::cuda_test
