// SPDX-License-Identifier: Apache-2.0
// The driver fails on demand: nothing is left behind, nothing hangs. Needs the driver of fake/.
#include <algorithm>
#include <future>
#include <thread>

#include "bytes.hpp"
#include "cuda/device.hpp"
#include "expect.hpp"
#include "failures.hpp"
#include "gate.hpp"
#include "modelled_driver.hpp"
#include "sink.hpp"
#include "weir/device_vector.hpp"
#include "weir/pool.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

TEST_F(Failures, RefusedAllocationsLeaveNothing) {
  const Stream stream(gpu());
  const std::pair<MemoryKind, std::vector<const char*>> kinds[] = {
      {MemoryKind::device, {"cuMemAlloc"}},
      {MemoryKind::async, {"cuMemAllocFromPoolAsync"}},
      {MemoryKind::vmm, {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}},
      {MemoryKind::pinned, {"cuMemHostAlloc"}},
      {MemoryKind::managed, {"cuMemAllocManaged"}}};
  for (const auto& [kind, calls] : kinds) {
    const auto resource = make_resource(gpu(), kind);
    resource->allocate(64, stream).fill(std::byte{0}, stream);
    stream.synchronize();
    (void)resource->trim(0);
    for (const char* call : calls) {
      SCOPED_TRACE(call);
      const auto before = live();
      fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
      try {
        (void)resource->allocate(4096, stream);
        ADD_FAILURE() << "was not refused";
      } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.shortage().call, call);
        EXPECT_EQ(error.shortage().native, Errc::out_of_memory);
      }
      EXPECT_EQ(live(), before);
      forget();
      fail_next(call, CUDA_ERROR_ILLEGAL_ADDRESS);
      EXPECT_ERROR(resource->allocate(4096, stream), Errc::device_lost, call);
      EXPECT_EQ(resource->stats().reserved, 0U) << "what a lost device does not take back is the driver's";
      (void)test::take_reports();
      forget();
      EXPECT_EQ(resource->allocate(4096, stream).size(), 4096U);
      stream.synchronize();
      (void)resource->trim(0);
    }
  }
}

TEST_F(Failures, PinnedMemoryWithoutADeviceAddressIsGivenBack) {
  const Stream stream(gpu());
  const auto resource = cuda::make_pinned_resource(gpu());
  const auto before = live();
  fail_next("cuMemHostGetDevicePointer", CUDA_ERROR_INVALID_VALUE);
  EXPECT_ERROR(resource->allocate(4096, stream), Errc::invalid_argument,
               "cuMemHostGetDevicePointer: 4096 bytes on cuda:0");
  EXPECT_EQ(live(), before);
}

TEST_F(Failures, RefusedImportsLeaveNothing) {
  const Stream stream(gpu());
  Buffer buffer = cuda::make_vmm_resource(gpu(), {.exportable = true})->allocate(1, stream);
  const auto& ops = *gpu().state().backend->segments;
  const auto before = live();
  for (const char* call : {"cuMemImportFromShareableHandle", "cuMemGetAllocationPropertiesFromHandle",
                           "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    auto exported = ops.export_handle(*buffer.location().segment);
    spi::StrangerFd file(std::move(exported.fd));
    fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_ERROR(ops.import_handle(gpu().state(), {.kind = exported.kind,
                                                   .fd = file,
                                                   .size = buffer.location().segment->size,
                                                   .memory_kind = MemoryKind::vmm}),
                 Errc::out_of_memory, call);
    EXPECT_TRUE(file) << "the caller has it, and may try again";
    EXPECT_EQ(live(), before);
    forget();
  }
}

// Nothing else has the host look at that free.
TEST_F(Failures, AFreeThatTrimCouldNotWaitForIsTheNextOnes) {
  const Stream stream(gpu());
  const auto resource = cuda::make_async_resource(gpu());
  resource->allocate(4096, stream).close();
  fail_next("cuEventSynchronize", CUDA_ERROR_UNKNOWN);
  resource->trim(0);
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("CUDA_ERROR_UNKNOWN"), std::string::npos) << reports[0].message;
  EXPECT_GT(resource->stats().reserved, 0U);
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

TEST_F(Failures, AFreeWhoseEventIsRefusedIsWaitedForAllTheSame) {
  const Stream stream(gpu());
  const auto resource = cuda::make_async_resource(gpu());
  Buffer buffer = resource->allocate(4096, stream);
  fail_next("cuEventRecord", CUDA_ERROR_UNKNOWN);
  buffer.close();
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
  forget();
  EXPECT_EQ(test::take_reports().size(), 0U);
}

// A free is remembered by the first of eight attempts that the driver does not refuse. If it refuses all of them, the
// pool's own stream waits for the stream of the free, which is attempted as often.
TEST_F(Failures, AFreeThatCannotBeRememberedIsWaitedForAllTheSame) {
  const Stream stream(gpu());
  auto resource = cuda::make_async_resource(gpu());
  const auto ended = calls("cuMemPoolDestroy"), recorded = calls("cuEventRecord");
  Buffer buffer = resource->allocate(4096, stream);
  for (int i = 0; i < 12; ++i) fail_next("cuEventRecord", CUDA_ERROR_UNKNOWN);
  buffer.close();
  EXPECT_GT(calls("cuEventRecord"), recorded + 12);
  forget();
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
  resource.reset();
  test::await_releases();
  EXPECT_EQ(calls("cuMemPoolDestroy"), ended + 1);
  EXPECT_EQ(test::take_reports().size(), 0U);
}

// Drivers crash when a pool ends before the host has seen a free.
TEST_F(Failures, APoolWithAnUnknownFreeIsLeaked) {
  const Stream stream(gpu());
  auto resource = cuda::make_async_resource(gpu());
  const auto ended = calls("cuMemPoolDestroy");
  Buffer buffer = resource->allocate(4096, stream);
  for (int i = 0; i < 24; ++i) fail_next("cuEventRecord", CUDA_ERROR_UNKNOWN);
  buffer.close();
  forget();
  resource.reset();
  test::await_releases();
  EXPECT_EQ(calls("cuMemPoolDestroy"), ended);
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "end of a pool of the driver");
}

TEST_F(Failures, APoolWhoseFreesTheHostCannotSeeIsLeaked) {
  const Stream stream(gpu());
  auto resource = cuda::make_async_resource(gpu());
  const auto ended = calls("cuMemPoolDestroy");
  Buffer buffer = resource->allocate(4096, stream);
  stream.synchronize();
  Busy busy(cuda::native(stream));
  buffer.close();
  resource.reset();  // waits for the free
  for (int i = 0; i < 24; ++i) fail_next("cuStreamSynchronize", CUDA_ERROR_UNKNOWN);
  busy.release();
  const auto reports = test::await_reports(1);
  forget();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "end of a pool of the driver");
  EXPECT_EQ(calls("cuMemPoolDestroy"), ended);
}

TEST_F(Failures, ALostDeviceEndsTheStreamAndNothingHangs) {
  const auto resource = cuda::make_device_resource(gpu());
  {
    const Stream stream(gpu()), other(gpu());
    Buffer buffer = resource->allocate(4096, stream);
    buffer.fill(std::byte{1}, stream);
    other.wait(stream.record());
    other.synchronize();  // the fake device only pretends to be lost: it must not be writing
    stream.call([] {});
    fail_next("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(stream.record().wait(1h), WaitStatus::lost);
    forget();
    EXPECT_ERROR(stream.synchronize(), Errc::device_lost, "CUDA_ERROR_ILLEGAL_ADDRESS");
    EXPECT_ERROR(buffer.fill(std::byte{1}, stream), Errc::device_lost, "is lost");
    EXPECT_ERROR(other.wait(stream.record()), Errc::device_lost, "is lost");
    other.synchronize();
    buffer.close();
  }
  (void)resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
  EXPECT_EQ(test::take_reports().size(), 1U) << "said once";
}

// The driver calls no function any more then; who waits for the end of what it owns must not wait for ever.
TEST_F(Failures, ADeviceThatStopsLetsGoOfWhatHostCallsOwn) {
  const auto fault = reinterpret_cast<void (*)(int, int)>(test::find_in_model("fake_cuda_fault"));
  auto answer = std::make_shared<std::promise<void>>();
  auto ended = answer->get_future();
  {
    const NativeStream busy;
    const Stream stream(gpu());
    Busy kernel(busy.get());
    stream.wait(cuda::borrow(gpu(), busy.get()).record());
    stream.call([answer = std::move(answer)] { answer->set_value(); });
    fault(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_ERROR(stream.synchronize(), Errc::device_lost, "CUDA_ERROR_ILLEGAL_ADDRESS");
    EXPECT_THROW(ended.get(), std::future_error) << "broken promise";
    forget();
  }
  (void)test::take_reports();
}

// Nobody waits for the stream, so that only the call can tell of it.
TEST_F(Failures, ACallThatTellsOfAStopLetsGoOfWhatHostCallsOwn) {
  const auto fault = reinterpret_cast<void (*)(int, int)>(test::find_in_model("fake_cuda_fault"));
  auto answer = std::make_shared<std::promise<void>>();
  auto ended = answer->get_future();
  {
    const NativeStream busy;
    const Stream stream(gpu()), other(gpu());
    Buffer buffer = cuda::make_device_resource(gpu())->allocate(4096, other);
    Busy kernel(busy.get());
    stream.wait(cuda::borrow(gpu(), busy.get()).record());
    stream.call([answer = std::move(answer)] { answer->set_value(); });
    fault(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_ERROR(buffer.fill(std::byte{1}, other), Errc::device_lost, "CUDA_ERROR_ILLEGAL_ADDRESS");
    EXPECT_THROW(ended.get(), std::future_error) << "broken promise";
    forget();
  }
  (void)test::take_reports();
}

// The fault of the device does not stop it, and it may read and write memory of the stream.
TEST_F(Failures, AHostCallThatRunsOutlivesTheDevice) {
  const auto fault = reinterpret_cast<void (*)(int, int)>(test::find_in_model("fake_cuda_fault"));
  const Stream stream(gpu());
  std::promise<void> begun, may_end;
  stream.call([&] {
    begun.set_value();
    may_end.get_future().wait();
  });
  const auto after = stream.state().position();
  begun.get_future().wait();
  fault(0, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(stream.state().finished(after));
  EXPECT_ERROR(stream.synchronize(), Errc::device_lost, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_FALSE(stream.state().finished(after));
  may_end.set_value();
  while (!stream.state().finished(after)) std::this_thread::yield();
  forget();
  (void)test::take_reports();
}

TEST_F(Failures, AWaitForATimelineThatIsLostEnds) {
  test::Gate gate;
  const NativeStream native;
  const Stream borrowed = cuda::borrow(gpu(), native.get()), held(gpu());
  gate.hold(held);
  const Event never = held.record();
  auto waiting = std::async(std::launch::async, [&] { borrowed.wait(never); });
  EXPECT_EQ(waiting.wait_for(5ms), std::future_status::timeout) << "the driver does not have the point yet";
  for (int i = 0; i < 10; ++i) fail_next("cuEventRecord", CUDA_ERROR_LAUNCH_FAILED);
  gate.open();
  EXPECT_EQ(never.wait(1h), WaitStatus::lost);
  forget();
  try {
    waiting.get();  // it came back: that is what counts
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::device_lost);
  }
  borrowed.synchronize();
  EXPECT_GE(test::await_reports(1).size(), 1U);
}

TEST_F(Failures, ARefusedHostCallKeepsItsFunction) {
  const Stream stream(gpu());
  const auto owned = std::make_shared<int>();
  fail_next("cuLaunchHostFunc", CUDA_ERROR_INVALID_VALUE);
  EXPECT_ERROR(stream.call([owned] { ADD_FAILURE() << "was refused"; }), Errc::invalid_argument, "cuLaunchHostFunc");
  EXPECT_EQ(owned.use_count(), 1) << "the refused function is gone";
  bool called = false;
  stream.call([&] { called = true; });
  stream.synchronize();
  EXPECT_TRUE(called);
}

TEST_F(Failures, RefusedCopiesAreThrownWithTheirSizes) {
  const Stream stream(gpu());
  const auto resource = cuda::make_device_resource(gpu());
  Buffer a = resource->allocate(4096, stream), b = resource->allocate(4096, stream);
  fail_next("cuMemcpyAsync", CUDA_ERROR_INVALID_VALUE);
  EXPECT_ERROR(a.copy_from(b, stream), Errc::invalid_argument, "cuMemcpyAsync: 4096 bytes on cuda:0");
  a.copy_from(b, stream);
  stream.synchronize();
}

// Its caller may end the memory of the host at once.
TEST_F(Failures, ARefusedCopyToTheHostWritesNothingLater) {
  const Stream stream(gpu());
  Buffer buffer = cuda::make_device_resource(gpu())->allocate(std::size_t{20} << 20, stream);
  buffer.fill(std::byte{1}, stream);
  stream.synchronize();
  Busy kernel(cuda::native(stream));
  std::vector<std::byte> out(buffer.size(), std::byte{0x11});
  fail_next("cuMemcpyAsync", 2, CUDA_ERROR_INVALID_VALUE);
  EXPECT_ERROR(buffer.copy_to(std::span(out), stream), Errc::invalid_argument, "cuMemcpyAsync");
  kernel.release();
  stream.synchronize();
  EXPECT_EQ(std::ranges::count(out, std::byte{0x11}), static_cast<std::ptrdiff_t>(out.size()));
  buffer.copy_to(std::span(out), stream);
  stream.synchronize();
  EXPECT_EQ(std::ranges::count(out, std::byte{1}), static_cast<std::ptrdiff_t>(out.size()));
}

// A long copy goes to the driver in pieces.
TEST_F(Failures, ARefusedCopyIntoAVectorWritesNoOtherElements) {
  const Stream stream(gpu());
  constexpr std::size_t count = std::size_t{20} << 20, first = 100, last = 200;
  DeviceVector<std::uint8_t> vector(cuda::make_device_resource(gpu()), count, stream);
  vector.buffer().fill(std::uint8_t{1}, stream);
  const std::vector<std::uint8_t> nines(count - first - last, 9);
  fail_next("cuMemcpyAsync", 2, CUDA_ERROR_INVALID_VALUE);
  EXPECT_ERROR(vector.copy_from(nines, stream, first), Errc::invalid_argument, "cuMemcpyAsync");
  EXPECT_EQ(vector.size(), count);
  std::vector<std::uint8_t> found(count);
  vector.copy_to(found, stream);
  stream.synchronize();
  EXPECT_EQ(std::count(found.begin(), found.begin() + first, 1), static_cast<std::ptrdiff_t>(first));
  EXPECT_EQ(std::count(found.end() - last, found.end(), 1), static_cast<std::ptrdiff_t>(last));
  vector.copy_from(nines, stream, first);
  vector.copy_to(found, stream);
  stream.synchronize();
  EXPECT_EQ(std::ranges::count(found, 9), static_cast<std::ptrdiff_t>(nines.size()));
}

TEST_F(Failures, ARefusedReleaseIsReported) {
  const Stream stream(gpu());
  const auto resource = cuda::make_device_resource(gpu());
  fail_next("cuMemFree", CUDA_ERROR_INVALID_VALUE);
  resource->allocate(4096, stream).close();
  (void)resource->trim(0);
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "cuMemFree");
  EXPECT_NE(reports[0].message.find("cuda:0"), std::string::npos);
}

}  // namespace
}  // namespace weir::cuda_test
