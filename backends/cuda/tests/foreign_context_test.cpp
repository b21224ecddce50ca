// SPDX-License-Identifier: Apache-2.0
// Whatever context is current, on whatever thread: import, export, wrapping, borrowing, closing and refusals are right
// and leave it as it was.
#include <functional>

#include "bytes.hpp"
#include "expect.hpp"
#include "native.hpp"
#include "threads.hpp"
#include "weir/dlpack.hpp"
#include "weir/ipc.hpp"

namespace weir::cuda_test {
namespace {

using test::pattern;
using test::read;

class ForeignContext : public CudaTest {
 protected:
  /// Run `body` with no context, the primary one and another one current: on this thread and on a fresh one.
  static void under_each(const std::function<void()>& body) {
    const OtherContext other;
    for (const CUcontext context : {CUcontext{nullptr}, primary(), other.get()}) {
      const auto checked = [&] {
        const Current current(context);
        body();
        EXPECT_EQ(Current::now(), context);
      };
      checked();
      test::Thread(checked).join();
    }
  }
};

TEST_F(ForeignContext, ExportAndImport) {
  const auto resource = cuda::make_vmm_resource(gpu(), {.exportable = true});
  under_each([&] {
    const Stream stream(gpu());
    Buffer buffer = resource->allocate(5000, stream);
    test::write(buffer, pattern(5000, 1), stream);
    Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
    EXPECT_BYTES(read(opened, stream), pattern(5000, 1));
    buffer.close();
    opened.close(stream);
    resource->trim(0);
  });
}

TEST_F(ForeignContext, TensorsInAndOut) {
  const Device of = gpu();
  for (const KindInfo& info : of.kinds()) {
    const auto resource = make_resource(gpu(), info.kind);
    under_each([&] {
      SCOPED_TRACE(to_string(info.kind));
      const Stream stream(gpu());
      Buffer buffer = resource->allocate(5000, stream);
      test::write(buffer, pattern(5000, 2), stream);
      Tensor tensor = from_dlpack(buffer.view(u8, {5000}).to_dlpack(stream).release(), stream);
      buffer.close();
      EXPECT_BYTES(read(tensor.buffer(), stream), pattern(5000, 2));
      const auto external = tensor.buffer().memory_resource();
      tensor.buffer().close();
      stream.synchronize();
      external->trim(0);
      EXPECT_EQ(resource->stats().live_buffers, 0U);
    });
  }
}

TEST_F(ForeignContext, EventsAndBorrowedStreams) {
  under_each([] {
    const NativeStream native;
    const Stream stream(gpu()), borrowed = cuda::borrow(gpu(), native.get()), host(host_device());
    borrowed.wait(stream.record());
    host.wait(borrowed.record());
    stream.wait(host.record());
    EXPECT_EQ(stream.synchronize(std::chrono::nanoseconds{-1}), WaitStatus::ready);
    EXPECT_TRUE(borrowed.record().done() || borrowed.synchronize(std::chrono::nanoseconds{-1}) == WaitStatus::ready);
    EXPECT_EQ(cuda::native(borrowed), native.get());
  });
}

TEST_F(ForeignContext, BuffersMadeUnderAnotherAreClosedUnderNone) {
  const Device of = gpu();
  for (const KindInfo& info : of.kinds()) {
    const auto resource = make_resource(gpu(), info.kind);
    Buffer buffer;
    {
      const OtherContext other;
      const Current current(other.get());
      const Stream stream(gpu());
      buffer = resource->allocate(5000, stream);
      buffer.fill(std::uint8_t{1}, stream);
      EXPECT_EQ(Current::now(), other.get());
    }
    test::Thread([moved = std::move(buffer)]() mutable {
      moved.close();
      EXPECT_EQ(Current::now(), nullptr);
    }).join();
    resource->trim(0);
    EXPECT_EQ(resource->stats().reserved, 0U) << to_string(info.kind);
  }
}

TEST_F(ForeignContext, Refusals) {
  under_each([] {
    const Stream stream(gpu());
    const auto vmm = cuda::make_vmm_resource(gpu());
    Buffer buffer = vmm->allocate(64, stream);
    EXPECT_ERROR(buffer.ipc_descriptor(stream), Errc::unsupported, "export");
    EXPECT_ERROR(buffer.fill(std::uint8_t{1}, 0, 65, stream), Errc::invalid_argument, "65");
    EXPECT_ERROR(Buffer::from_handle(gpu(), 0x1000, 64, {}, stream), Errc::invalid_argument, "");
    const Device of = gpu();
    for (const KindInfo& info : of.kinds()) {
      EXPECT_FALSE(make_resource(gpu(), info.kind)->try_allocate(std::size_t{1} << 50U, stream).has_value());
    }
  });
}

}  // namespace
}  // namespace weir::cuda_test
