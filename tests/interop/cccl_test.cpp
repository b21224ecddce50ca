// SPDX-License-Identifier: Apache-2.0
// CCCL's containers over resources of weir, and resources of CCCL under weir's.

#include "weir/interop/cccl.hpp"

#include <gtest/gtest.h>

#include <cuda/buffer>

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "cuda/tests/native.hpp"
#include "expect.hpp"
#include "modelled_driver.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {

/// A resource of somebody else's, without streams.
class Strange {
 public:
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment) {
    if (bytes > 1000000) throw std::bad_alloc();
    ++*live_;
    return ::operator new (bytes, std::align_val_t{alignment});
  }
  void deallocate_sync(void* address, std::size_t /*bytes*/, std::size_t alignment) noexcept {
    --*live_;
    ::operator delete (address, std::align_val_t{alignment});
  }
  [[nodiscard]] int live() const { return *live_; }
  friend bool operator==(const Strange& a, const Strange& b) { return a.live_ == b.live_; }
  friend void get_property(const Strange& /*one*/, ::cuda::mr::host_accessible /*property*/) noexcept {}

 private:
  std::shared_ptr<int> live_ = std::make_shared<int>(0);
};

namespace {

namespace mr = ::cuda::mr;
using cccl::DeviceResource;
using cccl::HostResource;
using cccl::SharedResource;
using DeviceBuffer = ::cuda::buffer<int, mr::device_accessible>;
using HostBuffer = ::cuda::buffer<int, mr::host_accessible>;

static_assert(mr::resource_with<DeviceResource, mr::device_accessible>);
static_assert(!::cuda::has_property<DeviceResource, mr::host_accessible>);
static_assert(mr::resource_with<HostResource, mr::host_accessible>);
static_assert(!::cuda::has_property<HostResource, mr::device_accessible>);
static_assert(mr::resource_with<SharedResource, mr::host_accessible, mr::device_accessible>);
static_assert(sizeof(DeviceResource) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<DeviceResource> &&
              std::is_nothrow_move_constructible_v<DeviceResource>);

TEST(CcclOnHost, OursWithoutStreams) {
  const auto pool = make_pool(host::make_pageable_resource());
  HostResource ours(pool);
  const HostResource copy = ours, other(pool);
  EXPECT_EQ(copy, ours);
  EXPECT_NE(other, ours) << "what one allocates, the other does not know";
  mr::any_synchronous_resource<mr::host_accessible> any = ours;
  auto* const numbers = static_cast<int*>(any.allocate_sync(400, 64));
  std::iota(numbers, numbers + 100, 0);
  EXPECT_EQ(pool->stats().live_buffers, 1U);
  ours.deallocate_sync(numbers, 400, 64);
  EXPECT_EQ(pool->stats().live_buffers, 0U);
  EXPECT_EQ(ours.resource(), pool);
}

// RMM's containers compare the resource that they were made with after it was moved into them.
TEST(CcclOnHost, AMoveIsACopy) {
  const auto pool = make_pool(host::make_pageable_resource());
  HostResource ours(pool);
  const HostResource copy = ours;
  HostResource moved = std::move(ours);
  EXPECT_EQ(ours, copy) << "not empty";  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved, copy);
  EXPECT_EQ(ours.resource(), pool);
  HostResource assigned(make_pool(host::make_pageable_resource()));
  EXPECT_NE(assigned, copy);
  assigned = std::move(moved);
  EXPECT_EQ(assigned, copy);
  EXPECT_EQ(moved, copy);  // NOLINT(bugprone-use-after-move)
  HostResource& itself = assigned;
  assigned = itself;
  EXPECT_EQ(assigned, copy);
}

TEST(CcclOnHost, CopiesKeepWhatIsAllocated) {
  const auto pool = make_pool(host::make_pageable_resource());
  void* address = nullptr;
  std::optional<HostResource> last;
  {
    HostResource first(pool);
    address = first.allocate_sync(1000);
    last = first;
  }
  EXPECT_EQ(pool->stats().live_buffers, 1U);
  last->deallocate_sync(address, 1000);
  EXPECT_EQ(pool->stats().live_buffers, 0U);
  (void)last->allocate_sync(1000);
  last.reset();
  EXPECT_EQ(pool->stats().live_buffers, 0U) << "the end of the last closes what was not given back";
}

/// What RMM's callers expect, as it were.
struct TheirOutOfMemory : std::bad_alloc {
  explicit TheirOutOfMemory(std::string text) : said(std::move(text)) {}
  std::string said;
};

TEST(CcclOnHost, ExhaustionIsWhatTheCallerMakesOfIt) {
  const auto pool = make_limiting(make_pool(host::make_pageable_resource()), 1000);
  int asked = 0;
  HostResource theirs(pool, [](const OutOfMemory& error) { throw TheirOutOfMemory(error.what()); });
  HostResource counts(pool, [&](const OutOfMemory& error) { asked += error.shortage().requested == 2000 ? 1 : 0; });
  mr::any_synchronous_resource<mr::host_accessible> any = theirs;
  try {
    (void)any.allocate_sync(2000, 64);
    ADD_FAILURE() << "was not refused";
  } catch (const TheirOutOfMemory& error) {
    EXPECT_NE(error.said.find("limit"), std::string::npos);
  }
  EXPECT_OUT_OF_MEMORY((void)counts.allocate_sync(2000), "limit");
  EXPECT_EQ(asked, 1);
  void* const address = any.allocate_sync(1000, 64);
  any.deallocate_sync(address, 1000, 64);
  EXPECT_EQ(pool->stats().live_buffers, 0U);
}

TEST(CcclOnHost, MemoryThatIsNotAsThePropertiesSayIsRefused) {
  const ResourcePtr pageable = host::make_pageable_resource();
  EXPECT_ERROR(DeviceResource{pageable}, Errc::unsupported, "device");
  EXPECT_ERROR(SharedResource{pageable}, Errc::unsupported, "device");
  EXPECT_ERROR(HostResource{nullptr}, Errc::invalid_argument, "null");
  for (const Device& device : devices()) {
    for (const KindInfo& kind : device.kinds()) {
      if (kind.host_accessible) continue;
      EXPECT_ERROR(HostResource{make_resource(device, kind.kind)}, Errc::unsupported, "host");
    }
  }
}

TEST(CcclOnHost, TheirsUnderOurs) {
  Strange strange;
  const ResourcePtr memory = cccl::make_resource(strange, host_device(), "strange");
  EXPECT_EQ(memory->name(), "host.strange");
  EXPECT_TRUE(memory->is_host_accessible());
  const Stream stream(host_device());
  {
    const auto pool = make_pool(memory, {.segment_bytes = 100000});
    Buffer one = pool->allocate(1000, stream), two = memory->allocate(1000, stream, 4096);
    one.fill(std::uint8_t{1}, stream);
    two.copy_from(one, stream);
    EXPECT_EQ(test::read(two, stream), test::repeat(1000, 1));
    EXPECT_EQ(strange.live(), 2);
  }
  memory->trim(0);
  EXPECT_EQ(strange.live(), 0);
  EXPECT_OUT_OF_MEMORY((void)memory->allocate(2000000, stream), "strange");
}

/// With a context current, as programs have it that use the runtime library.
class Cccl : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) current_.emplace(primary());
  }
  static PoolPtr pool() { return make_pool(gpu()); }

 private:
  std::optional<Current> current_;
};

TEST_F(Cccl, AnyResourceOverAPool) {
  const auto memory = pool();
  const NativeStream native;
  const ::cuda::stream_ref stream{native.get()};
  mr::any_resource<mr::device_accessible> any{DeviceResource(memory)};
  mr::any_resource<mr::device_accessible> copy = any;
  EXPECT_TRUE(any == copy);
  EXPECT_FALSE(any == (mr::any_resource<mr::device_accessible>{DeviceResource(memory)}));
  void* const address = any.allocate(stream, 1000, 256);
  EXPECT_EQ(memory->stats().in_use, 1000U);
  copy.deallocate(stream, address, 1000, 256);
  mr::resource_ref<mr::device_accessible> ref{any};
  void* const again = ref.allocate(stream, 1000, 256);
  EXPECT_EQ(again, address);
  ref.deallocate(stream, again, 1000, 256);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

template <class Resource>
void serve_a_stream_and_the_host(const PoolPtr& memory) {
  Resource ours(memory);
  const Resource copy = ours;
  EXPECT_TRUE(ours == copy);
  EXPECT_FALSE(ours == Resource(memory)) << "what one allocates, the other does not know";
  const NativeStream native;
  const ::cuda::stream_ref stream{native.get()};
  void* const one = ours.allocate(stream, 1000);
  void* const two = ours.allocate_sync(2000);
  EXPECT_EQ(memory->stats().in_use, 3000U);
  ours.deallocate(stream, one, 1000);
  ours.deallocate_sync(two, 2000);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

TEST_F(Cccl, EachServesStreamsAndTheHost) {
  serve_a_stream_and_the_host<DeviceResource>(pool());
  serve_a_stream_and_the_host<HostResource>(make_pool(cuda::make_pinned_resource(gpu())));
  serve_a_stream_and_the_host<SharedResource>(make_pool(cuda::make_pinned_resource(gpu())));
}

TEST_F(Cccl, BuffersOverAPool) {
  const auto memory = pool(), pinned = make_pool(cuda::make_pinned_resource(gpu()));
  const NativeStream native;
  const ::cuda::stream_ref stream{native.get()};
  {
    HostBuffer written{stream, HostResource(pinned), 1000, ::cuda::no_init};
    std::iota(written.begin(), written.end(), 7);
    DeviceBuffer there = ::cuda::make_buffer<int, mr::device_accessible>(stream, DeviceResource(memory), written);
    EXPECT_EQ(memory->stats().live_buffers, 1U);
    const auto further = ::cuda::make_buffer<int, mr::device_accessible>(stream, DeviceResource(memory), there);
    EXPECT_EQ(memory->stats().live_buffers, 2U);
    const auto seen = ::cuda::make_buffer<int, mr::host_accessible>(stream, HostResource(pinned), further);
    ASSERT_CU(api().StreamSynchronize(native.get()));
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), written.begin(), written.end()));
    EXPECT_EQ(seen.get_unsynchronized(999), 1006);
    there.destroy();
    EXPECT_EQ(memory->stats().live_buffers, 1U);
    const DeviceBuffer empty{stream, DeviceResource(memory), 0, ::cuda::no_init};
    EXPECT_EQ(memory->stats().live_buffers, 1U);
  }
  EXPECT_EQ(memory->stats().live_buffers, 0U);
  EXPECT_EQ(pinned->stats().live_buffers, 0U);
}

TEST_F(Cccl, BuffersOfGivenValues) {
  if (test::find_in_model("fake_cuda_violations")) GTEST_SKIP() << "the modelled driver copies no ordinary memory";
  const NativeStream native;
  const ::cuda::stream_ref stream{native.get()};
  const DeviceBuffer numbers{stream, DeviceResource(pool()), {3, 1, 4, 1, 5}};
  const auto seen = ::cuda::make_buffer<int, mr::device_accessible, mr::host_accessible>(
      stream, SharedResource(make_pool(cuda::make_pinned_resource(gpu()))), numbers);
  ASSERT_CU(api().StreamSynchronize(native.get()));
  const std::vector<int> expected{3, 1, 4, 1, 5};
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), expected.begin(), expected.end()));
}

TEST_F(Cccl, ABufferOnABusyStreamGetsTheMemoryOfTheOneBefore) {
  const auto memory = pool();
  DeviceResource resource(memory);
  const NativeStream native;
  const ::cuda::stream_ref stream{native.get()};
  Busy busy(native.get());
  const int* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    const DeviceBuffer buffer{stream, resource, 100000, ::cuda::no_init};
    if (i == 0) first = buffer.data();
    EXPECT_EQ(buffer.data(), first);
  }
  EXPECT_EQ(memory->pool_stats().reuses, 9U);
}

TEST_F(Cccl, ExhaustionIsBadAlloc) {
  const auto limited = make_limiting(pool(), 1000);
  const NativeStream native;
  using Buffer = DeviceBuffer;
  EXPECT_THROW((Buffer{::cuda::stream_ref{native.get()}, DeviceResource(limited), 1000, ::cuda::no_init}),
               std::bad_alloc);
  const DeviceResource theirs(limited, [](const OutOfMemory& error) { throw TheirOutOfMemory(error.what()); });
  EXPECT_THROW((Buffer{::cuda::stream_ref{native.get()}, theirs, 1000, ::cuda::no_init}), TheirOutOfMemory);
  EXPECT_EQ(limited->stats().live_buffers, 0U);
}

// Through both adaptors, in the order of streams.
TEST_F(Cccl, OursUnderTheirsUnderOurs) {
  const auto memory = pool();
  const mr::any_resource<mr::device_accessible> theirs{DeviceResource(memory)};
  const ResourcePtr ours = cccl::make_resource(theirs, gpu());
  EXPECT_FALSE(ours->is_host_accessible());
  EXPECT_TRUE(ours->is_device_accessible());
  const Stream stream(gpu());
  for (int i = 0; i < 5; ++i) {
    Buffer buffer = ours->allocate(100000, stream);
    buffer.fill(static_cast<std::uint8_t>(i), stream);
    EXPECT_EQ(test::read(buffer, stream), test::repeat(100000, static_cast<unsigned char>(i)));
  }
  ours->trim(0);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

TEST_F(Cccl, PoolsOfTheirsUnderOurs) {
  ::cuda::device_memory_pool theirs{::cuda::device_ref{0}};
  const ResourcePtr ours = cccl::make_resource(theirs.as_ref(), gpu(), "their_pool");
  auto over = make_pool(ours, {.segment_bytes = std::size_t{2} << 20U});
  const Stream stream(gpu());
  Buffer one = ours->allocate(100000, stream), two = over->allocate(100000, stream);
  one.fill(std::uint8_t{1}, stream);
  two.copy_from(one, stream);
  EXPECT_EQ(test::read(two, stream), test::repeat(100000, 1));
  one.close();
  two.close();
  over.reset();
  ours->trim(0);
  EXPECT_EQ(ours->stats().reserved, 0U) << "theirs may end when ours has";
}

}  // namespace
}  // namespace weir::cuda_test
