// SPDX-License-Identifier: Apache-2.0
// Memory or threads run out where the CUDA backend has nobody to tell but the sink, or has begun something that it must
// end. Over the modelled driver.
#include <gtest/gtest.h>

#include <future>
#include <memory>

#include "cuda/device.hpp"
#include "cuda/host_calls.hpp"
#include "gate.hpp"
#include "inject/allocations.hpp"
#include "inject/system_calls.hpp"
#include "loop.hpp"
#include "modelled_driver.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "weir/buffer.hpp"
#include "weir/cuda.hpp"
#include "weir/interop/cuda_allocator.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    for (const BackendInfo& backend : backends()) {
      if (backend.name == "cuda" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
    }
    fail_ = reinterpret_cast<decltype(fail_)>(find_in_model("fake_cuda_fail"));
    if (!fail_) GTEST_SKIP() << "real drivers do not fail on demand";
    await_releases();            // until they end, the driver may let nobody use the device
    const Stream stream(gpu());  // what is made on first use
    stream.call([] {});
    stream.synchronize();
  }
  void TearDown() override {
    if (fail_) fail_("", 0, 0);
  }
  static Device gpu() { return cuda::device(0); }
  void fail_next(const char* call, CUresult code) { fail_(call, 1, code); }

 private:
  void (*fail_)(const char*, int, int) = nullptr;
};

TEST_F(OnCuda, WhatAHostFunctionOwnsEndsWithWhatTheNextOneOwnsWhenNoThreadCanEndIt) {
  FailingAllocations injector(gpu());
  injector.settle();  // no thread is there already
  injector.arm(0, 0);
  std::weak_ptr<int> owned;
  const Stream stream(gpu());
  {
    const auto owner = std::make_shared<int>(1);
    owned = owner;
    stream.call([&injector, owner] { injector.arm(1, 0); });  // on the driver's thread: what comes next there
  }
  stream.synchronize();
  (void)injector.disarm();
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where,
            "Stream::call: what the function owns ends with what the next one owns: no thread can end it now");
  EXPECT_EQ(reports[0].message, "std::bad_alloc");
  EXPECT_FALSE(owned.expired());
  stream.call([] {});
  EXPECT_TRUE(eventually([&] { return owned.expired(); }));
}

/// Capture an allocation, and return the graph. It owns the memory.
CUgraph capture(cuda::Allocator& allocator, CUstream stream) {
  const auto begin =
      reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureMode)>(find_in_model("cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<CUresult (*)(CUstream, CUgraph*)>(find_in_model("cuStreamEndCapture"));
  CUgraph graph = nullptr;
  EXPECT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  allocator.deallocate(stream, allocator.allocate(stream, 64));
  EXPECT_EQ(end(stream, &graph), CUDA_SUCCESS);
  return graph;
}

TEST_F(OnCuda, TheMemoryOfAGraphComesBackWithThatOfTheNextWhenNoThreadCanFreeIt) {
  const auto destroy = reinterpret_cast<CUresult (*)(CUgraph)>(find_in_model("cuGraphDestroy"));
  const auto set_current = reinterpret_cast<CUresult (*)(CUcontext)>(find_in_model("cuCtxSetCurrent"));
  const auto pool = make_pool(cuda::make_device_resource(gpu()));
  cuda::Allocator allocator(pool);
  const Stream stream(gpu());
  ASSERT_EQ(set_current(static_cast<cuda::Gpu&>(gpu().state()).context()), CUDA_SUCCESS);
  CUgraph first = capture(allocator, cuda::native(stream)), second = capture(allocator, cuda::native(stream));
  EXPECT_EQ(pool->stats().live_buffers, 2U);
  {
    FailingSystemCalls injector(host_device());
    injector.settle();  // no thread is there already
    injector.arm_only("thread", 1, 0);
    EXPECT_EQ(destroy(first), CUDA_SUCCESS);
    const auto reports = await_reports(1);
    EXPECT_TRUE(injector.disarm().has_value());
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].where,
              "cuda::Allocator: the memory of a graph comes back with that of the next one: no thread can free it now");
    EXPECT_EQ(pool->stats().live_buffers, 2U);
  }
  EXPECT_EQ(destroy(second), CUDA_SUCCESS);
  EXPECT_TRUE(eventually([&] { return pool->stats().live_buffers == 0; }));
  EXPECT_EQ(set_current(nullptr), CUDA_SUCCESS);
}

TEST_F(OnCuda, ADeviceThatStopsLetsGoOfHostFunctionsAlsoWithoutMemory) {
  FailingAllocations injector(gpu());
  const Stream stream(gpu());
  std::promise<void> begun, may_end;
  stream.call([&] {
    begun.set_value();
    may_end.get_future().wait();
  });
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> owned = owner;
  stream.call([owner = std::move(owner)] { ADD_FAILURE() << "the device has stopped"; });
  begun.get_future().wait();
  auto& state = static_cast<cuda::Gpu&>(gpu().state());
  const auto context = state.context();
  injector.arm(1, 1);
  cuda::HostCalls::get().notice(CUDA_ERROR_ILLEGAL_ADDRESS, context);
  const bool refused = injector.disarm().has_value();
  EXPECT_TRUE(refused);
  EXPECT_TRUE(owned.expired());
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "Stream::call: the device has stopped");
  may_end.set_value();
  stream.synchronize();
}

TEST_F(OnCuda, ARefusedReleaseIsReportedAlsoWithoutMemory) {
  FailingAllocations injector(gpu());
  const Stream stream(gpu());
  Buffer buffer = cuda::make_vmm_resource(gpu())->allocate(64, stream);
  stream.synchronize();
  fail_next("cuMemUnmap", CUDA_ERROR_INVALID_VALUE);
  injector.arm(1, 1);
  buffer.close();
  const bool refused = injector.disarm().has_value();
  EXPECT_TRUE(refused);
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "cuMemUnmap");
  EXPECT_EQ(reports[0].message, "no memory for the message");
}

// Frees that the driver makes when all else is over are put off while a stream waits for the host.
TEST_F(OnCuda, AWaitForWhichThereIsNoThreadPutsOffNoFrees) {
  const auto live = reinterpret_cast<std::size_t (*)()>(find_in_model("fake_cuda_live"));
  const auto resource = cuda::make_device_resource(gpu());
  const Stream stream(gpu());
  EXPECT_NE(cuda::native(stream), nullptr);  // what it waits for is not held back in software any more
  Buffer buffer = resource->allocate(64, stream);
  stream.synchronize();
  {
    FailingSystemCalls injector(host_device());
    injector.settle();  // no thread is there already
    const Gate gate;
    injector.arm_only("thread", 1, 0);
    EXPECT_THROW(gate.hold(stream), Error);
    EXPECT_TRUE(injector.disarm().has_value());
  }
  const auto before = live();
  buffer.close();
  resource->trim(0);
  EXPECT_LT(live(), before);
}

}  // namespace
}  // namespace weir::test
