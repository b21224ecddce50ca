// SPDX-License-Identifier: Apache-2.0
// What the contract says of streams, on streams that weir did not make alone: borrowed, special, of another context,
// and its own once their handle was given out.
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "native.hpp"
#include "sink.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::Gate;
using test::pattern;
using test::read;
using test::repeat;

/// A stream of one of those sorts, and what it needs to live.
struct Sort {
  std::string name;
  std::function<Stream()> make;
};

void PrintTo(const Sort& sort, std::ostream* out) { *out << sort.name; }

struct Lender {
  OtherContext context;
  NativeStream stream{context.get()};
};

std::vector<Sort> sorts() {
  return {
      {"Borrowed",
       [] {
         auto native = std::make_shared<NativeStream>();
         CUstream handle = native->get();
         return cuda::borrow(cuda::device(0), handle, std::move(native));
       }},
      {"Legacy", [] { return cuda::borrow(cuda::device(0), CU_STREAM_LEGACY); }},
      {"PerThread", [] { return cuda::borrow(cuda::device(0), CU_STREAM_PER_THREAD); }},
      {"OtherContext",
       [] {
         auto lender = std::make_shared<Lender>();
         CUstream handle = lender->stream.get();
         return cuda::borrow(cuda::device(0), handle, std::move(lender));
       }},
      {"GivenOut",
       [] {
         const Stream own(cuda::device(0));
         EXPECT_NE(cuda::native(own), nullptr);
         return own;
       }},
  };
}

class Borrowed : public CudaTest, public testing::WithParamInterface<Sort> {
 protected:
  static constexpr std::size_t size = 8192;

  static Buffer filled(const ResourcePtr& resource, const Bytes& bytes, const Stream& stream) {
    Buffer buffer = resource->allocate(bytes.size(), stream);
    test::write(buffer, bytes, stream);
    stream.synchronize();
    return buffer;
  }
  /// Let staging memory that was used become free again. Making more would wait for everything on the legacy stream:
  /// the driver allocates page-locked memory only when that is idle.
  static void await_staging() {
    for (const Device& each : devices()) make_resource(each)->trim(0);
  }
  /// Every kind of memory of the device.
  static std::vector<ResourcePtr> resources() {
    std::vector<ResourcePtr> all;
    const Device of = gpu();
    for (const KindInfo& info : of.kinds()) all.push_back(make_resource(gpu(), info.kind));
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Every, Borrowed, testing::ValuesIn(sorts()), [](const auto& each) { return each.param.name; });

TEST_P(Borrowed, EveryKindOfMemoryIsUsedInOrder) {
  const Stream stream = GetParam().make(), own(gpu());
  for (const ResourcePtr& resource : resources()) {
    SCOPED_TRACE(resource->name());
    Buffer a = resource->allocate(size, stream);
    test::write(a, pattern(size, 1), stream);
    Buffer b = a.copy_to(stream);
    b.fill(std::uint16_t{0x2222}, 1, 100, stream);
    own.wait(stream.record());
    Buffer c = b.copy_to(own);
    stream.wait(own.record());
    b.fill(std::uint8_t{0}, stream);
    Bytes model = pattern(size, 1);
    std::fill_n(model.begin() + 1, 100, std::byte{0x22});
    EXPECT_BYTES(read(c, own), model);
    EXPECT_BYTES(read(a, stream), pattern(size, 1));
    EXPECT_BYTES(read(b, stream), repeat(size, 0));
  }
}

TEST_P(Borrowed, MemoryGoesBackAfterItsUsesThere) {
  const Stream own(gpu());
  for (const ResourcePtr& resource : resources()) {
    SCOPED_TRACE(resource->name());
    const Stream stream = GetParam().make();
    Buffer source = filled(resource, pattern(size, 2), own);
    await_staging();
    Bytes seen(size);
    Gate gate;
    gate.hold(stream);
    source.copy_to(seen, stream);
    source.close();
    // Elsewhere, because a driver may let an allocation wait for what is on the device.
    auto scribble = std::async(std::launch::async, [&resource] {
      const Stream host(host_device());  // a stream that the legacy one does not order
      for (int i = 0; i < 4; ++i) resource->allocate(size, host).fill(std::uint8_t{0xff}, host);
      host.synchronize();
    });
    (void)scribble.wait_for(20ms);
    gate.open();
    stream.synchronize();
    EXPECT_BYTES(seen, pattern(size, 2));
    scribble.get();
  }
}

TEST_P(Borrowed, TimeoutsAreTruthful) {
  const Stream stream = GetParam().make();
  Gate gate;
  gate.hold(stream);
  const Event event = stream.record();
  EXPECT_EQ(event.wait(2ms), WaitStatus::timeout);
  EXPECT_EQ(stream.synchronize(2ms), WaitStatus::timeout);
  EXPECT_FALSE(event.done());
  gate.open();
  EXPECT_EQ(event.wait(-1ns), WaitStatus::ready);
  EXPECT_TRUE(event.done());
  EXPECT_EQ(stream.synchronize(-1ns), WaitStatus::ready);
}

TEST_P(Borrowed, HostFunctionsRunInOrderAndMayThrow) {
  const Stream stream = GetParam().make();
  const auto resource = cuda::make_pinned_resource(gpu());
  Buffer buffer = filled(resource, repeat(64, 1), stream);
  std::byte seen{};
  buffer.fill(std::uint8_t{2}, stream);
  stream.call([&] { seen = buffer.host_data()[63]; });
  buffer.fill(std::uint8_t{3}, stream);
  stream.call([] { throw std::runtime_error("spilt milk"); });
  stream.synchronize();
  EXPECT_EQ(seen, std::byte{2});
  EXPECT_BYTES(read(buffer, stream), repeat(64, 3));
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("spilt milk"), std::string::npos);
}

TEST_P(Borrowed, StreamsOfEveryDeviceWaitForIt) {
  for (const Device& theirs : devices()) {
    const Stream stream = GetParam().make(), other(theirs);
    const auto resource = cuda::make_device_resource(gpu());
    Buffer source = filled(resource, repeat(size, 1), stream);
    Bytes seen(size);
    for (const bool held : {false, true}) {  // the first time makes what the second must not wait for
      await_staging();
      Gate gate;
      gate.hold(stream);
      if (!held) gate.open();
      test::write(source, pattern(size, 3), stream);
      other.wait(stream.record());
      source.copy_to(seen, other);
      EXPECT_TRUE(!held || !other.done()) << theirs.id();
      gate.open();
      other.synchronize();
      EXPECT_BYTES(seen, pattern(size, 3)) << theirs.id();
    }
  }
}

TEST_P(Borrowed, NativeWorkThatWasAnnouncedKeepsTheMemory) {
  const Stream stream = GetParam().make(), own(gpu());
  CUstream native = cuda::native(stream);
  for (const ResourcePtr& resource : resources()) {
    SCOPED_TRACE(resource->name());
    Buffer source = filled(resource, pattern(size, 4), own);
    const Buffer target = cuda::make_device_resource(gpu())->allocate(size, own);
    Gate gate;
    gate.hold(stream);
    {
      CUcontext context = primary();
      if (native != CU_STREAM_LEGACY && native != CU_STREAM_PER_THREAD) {
        ASSERT_CU(api().StreamGetCtx(native, &context));
      }
      const Current current(context);
      ASSERT_CU(api().MemcpyAsync(cuda::pointer(target), cuda::pointer(source), size, native));
    }
    source.use_on(stream);
    source.close();
    gate.open();
    for (int i = 0; i < 4; ++i) resource->allocate(size, own).fill(std::uint8_t{0xff}, own);
    own.synchronize();
    stream.synchronize();
    EXPECT_BYTES(read(target, own), pattern(size, 4));
  }
}

TEST_P(Borrowed, MemoryOutlivesTheHandle) {
  Bytes seen(size);
  Buffer buffer;
  {
    const Stream stream = GetParam().make();
    buffer = filled(cuda::make_async_resource(gpu()), pattern(size, 5), stream);
  }
  const Stream own(gpu());
  buffer.copy_to(seen, own);
  own.synchronize();
  EXPECT_BYTES(seen, pattern(size, 5));
}

using HostBytes = CudaTest;

// weir put nothing on the stream, so that only the driver knows of its work.
TEST_F(HostBytes, WaitForWorkThatOnlyTheDriverKnowsOf) {
  const Stream own(gpu());
  Buffer buffer = cuda::make_pinned_resource(gpu())->allocate(8, own);
  const Bytes ones = repeat(8, 1), twos = repeat(8, 2);
  {
    Gate gate;
    gate.hold(own);
    buffer.copy_from(ones, own);  // makes the staging memory, which the driver may refuse to do beside a kernel
  }
  own.synchronize();
  const NativeStream native;
  Busy busy(native.get());
  const Stream borrowed = cuda::borrow(gpu(), native.get());
  buffer.copy_from(twos, borrowed);
  EXPECT_EQ(buffer.host_data()[7], std::byte{1});
  busy.release();
  borrowed.synchronize();
  EXPECT_EQ(buffer.host_data()[7], std::byte{2});
}

using LeasedMemory = CudaTest;

// The buffer is another process's in the end, when the application's stream is long gone.
TEST_F(LeasedMemory, OutlivesAStreamThatItsOwnerUsedItOn) {
  const auto pool = make_pool(gpu(), {.exportable = true});
  const Stream own(gpu());
  Buffer buffer = pool->allocate(1000, own);
  std::optional<ipc::Descriptor> lease = buffer.ipc_descriptor(own);
  {
    const NativeStream native;
    const Busy busy(native.get());
    buffer.fill(std::uint8_t{1}, cuda::borrow(gpu(), native.get()));
    buffer.close();
    EXPECT_EQ(pool->stats().live_buffers, 1U);
  }
  lease.reset();
  pool->trim(0);
  EXPECT_EQ(pool->stats().live_buffers, 0U);
  EXPECT_EQ(pool->stats().reserved, 0U);
}

}  // namespace
}  // namespace weir::cuda_test
