// SPDX-License-Identifier: Apache-2.0
// The driver fails on demand: nothing is left behind, nothing hangs. Needs the driver of fake/.
#include <future>
#include <thread>

#include "bytes.hpp"
#include "cuda/device.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "weir/pool.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

class Failures : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    fail_ = reinterpret_cast<decltype(fail_)>(test::find_in_model("fake_cuda_fail"));
    live_ = reinterpret_cast<decltype(live_)>(test::find_in_model("fake_cuda_live"));
    if (!fail_ || !live_) GTEST_SKIP() << "real drivers do not fail on demand";
    (void)test::take_reports();
    test::await_releases();  // of earlier tests: a refused allocation would find room in them
  }
  void TearDown() override {
    if (fail_) fail_("", 0, 0);
  }

  /// The next call of that name returns `code`.
  void fail_next(const char* call, CUresult code) { fail_next(call, 1, code); }
  void fail_next(const char* call, int nth, CUresult code) { fail_(call, nth, code); }
  void forget() { fail_("", 0, 0); }
  /// What the driver holds when weir and all streams have nothing to do.
  std::size_t live() {
    (void)cuda::make_device_resource(gpu())->trim(0);
    return live_();
  }

  /// Of the device.
  static std::size_t free_memory() { return static_cast<cuda::Gpu&>(gpu().state()).memory()->free; }

 private:
  void (*fail_)(const char*, int, int) = nullptr;
  std::size_t (*live_)() = nullptr;
};

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

// It may still be in use where it is mapped. Its addresses serve others once the driver has unmapped it.
TEST_F(Failures, APageThatIsNotUnmappedKeepsItsAddresses) {
  constexpr std::size_t page = std::size_t{2} << 20;
  const Stream stream(gpu());
  const auto use = [&](const PoolPtr& pool) {
    Buffer next = pool->allocate(page, stream);
    next.fill(std::uint8_t{3}, stream);
    EXPECT_BYTES(test::read(next, stream), test::repeat(page, 3));
    next.close();
    stream.synchronize();
  };
  const auto before = free_memory();
  const auto refuse = [&] { fail_next("cuMemUnmap", CUDA_ERROR_INVALID_VALUE); };
  const auto expect_report = [] {
    const auto reports = test::take_reports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_NE(reports[0].where.find("cuMemUnmap"), std::string::npos) << reports[0].where;
  };
  for (const bool also_at_the_end : {false, true}) {
    {
      const auto pool = make_pool(cuda::make_vmm_resource(gpu()), {.segment_bytes = page});
      use(pool);
      refuse();
      (void)pool->trim(0);
      expect_report();
      EXPECT_EQ(pool->stats().reserved, 0U);
      refuse();
      EXPECT_ERROR(pool->allocate(page, stream), Errc::invalid_argument, "cuMemUnmap");
      use(pool);
      if (also_at_the_end) refuse();
    }
    if (also_at_the_end) expect_report();
    EXPECT_EQ(free_memory(), before - (also_at_the_end ? page : 0)) << "what is mapped stays, and nothing else";
  }
}

TEST_F(Failures, APageThatIsNotUnmappedGivesWayToThoseThatNeedAPartOfIt) {
  constexpr std::size_t page = std::size_t{2} << 20;
  const auto before = live();
  {
    const auto addresses = spi::Ref<spi::PagedSegment>::adopt(
        gpu().state().backend->segments->reserve_addresses(gpu().state(), MemoryKind::vmm, 8 * page, false));
    for (const std::size_t at : {3U, 2U, 4U, 1U, 5U}) {
      Shortage shortage;
      ASSERT_TRUE(addresses->add_page(2 * page, 3 * page, shortage));
      fail_next("cuMemUnmap", CUDA_ERROR_INVALID_VALUE);
      addresses->end_page(2 * page);
      EXPECT_EQ(test::take_reports().size(), 1U);
      const std::size_t pages = at == 1 ? 2 : 1;
      ASSERT_TRUE(addresses->add_page(at * page, pages * page, shortage)) << at;
      addresses->end_page(at * page);
    }
  }
  EXPECT_EQ(live(), before);
}

// Each call of a growth that takes new pages, and of one that moves idle ones, by its number.
TEST_F(Failures, APagedPoolGoesOnAfterARefusedPage) {
  constexpr std::size_t page = std::size_t{2} << 20;
  std::size_t refusals = 0, served = 0;
  test::await_releases();  // of earlier tests, which would be counted here
  const Stream first(gpu());
  for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap"}) {
    for (const CUresult code : {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY}) {
      for (int nth = 1; nth <= 4; ++nth) {
        SCOPED_TRACE(call + (" number " + std::to_string(nth)) + " returns " + std::to_string(code));
        const auto before = free_memory();
        {
          const Stream stream(gpu());
          const auto pool = make_pool(cuda::make_vmm_resource(gpu()), {.segment_bytes = page, .patience = {}});
          std::vector<Buffer> kept;
          for (std::uint8_t i = 0; i < 6; ++i) {
            kept.push_back(pool->allocate(page, stream));
            kept.back().fill(i, stream);
          }
          for (const std::size_t i : {0U, 2U, 4U}) kept[i].close();
          stream.synchronize();
          fail_next(call, nth, code);
          try {
            Buffer large = pool->allocate(5 * page + 512, stream);
            large.fill(std::uint8_t{7}, stream);
            ++served;
          } catch (const std::exception& error) {
            ++refusals;
            EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
          }
          forget();
          (void)test::take_reports();
          for (const std::size_t pages : {5U, 1U, 9U}) {
            Buffer again = pool->allocate(pages * page + 512, stream);
            again.fill(std::uint8_t{8}, stream);
            EXPECT_BYTES(test::read(again, stream), test::repeat(again.size(), 8));
          }
          for (const std::size_t i : {1U, 3U, 5U}) {
            EXPECT_BYTES(test::read(kept[i], stream), test::repeat(page, static_cast<std::uint8_t>(i)));
          }
          stream.synchronize();
          kept.clear();
          (void)pool->trim(0);
          EXPECT_EQ(pool->stats().reserved, 0U);
        }
        EXPECT_EQ(free_memory(), before) << "a page is left behind";
      }
    }
  }
  EXPECT_GE(refusals, 16U);
  EXPECT_GT(served, 0U) << "a call that is made seldom is not reached, or another way is found";
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
  EXPECT_FALSE(test::take_reports().empty());
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
