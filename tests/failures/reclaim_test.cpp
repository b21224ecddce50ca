// SPDX-License-Identifier: Apache-2.0
// A release that cannot be handed over leaks and says so, rather than frees what is still in use.
#include "reclaim.hpp"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "hold.hpp"
#include "inject/allocations.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "unit/fake_stream.hpp"
#include "unit/watched_segment.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

// Two outcomes are right when there is no memory: leaked and reported at once, or reported, kept, and freed in time.
TEST(Reclaim, NeverFreesEarlyWhenHandingOverFails) {
  auto* fake = new FakeStream;
  const auto stream = spi::Ref<spi::StreamState>::adopt(fake);
  Listener listener;
  FailingAllocations injector(host_device());
  std::size_t leaks = 0;
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    std::atomic<bool> gone{false};
    auto mine = spi::Ref<spi::Segment>::adopt(new WatchedSegment(gone));
    spi::Segment* segment = mine.get();
    fake->put(FakeStream::fill());
    std::vector<spi::Point> points{{stream, fake->position()}};
    EXPECT_FALSE(fake->reached(points[0].value));  // marked, so that asking again needs no memory
    take_reports();
    injector.arm(nth, 0);
    detail::release_after(std::move(mine), std::move(points), true, listener, nullptr);
    const bool refused = injector.disarm().has_value();
    EXPECT_FALSE(gone);
    fake->finish(fake->position());
    detail::drain_releases(host_device().state());
    const auto reports = take_reports();
    if (!refused) {
      EXPECT_TRUE(gone);
      EXPECT_TRUE(reports.empty());
      break;
    }
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].where, "release of memory");
    if (reports[0].message.find("leaked") == std::string::npos) {
      EXPECT_TRUE(gone) << "kept for ever, and nothing says that it leaks";
      continue;
    }
    EXPECT_FALSE(gone) << "freed although it says that it leaks";
    segment->release();
    ++leaks;
  }
  EXPECT_GE(leaks, 2U) << "no failing allocation was tried";
}

/// Memory that the driver was to take back in stream order, and did not.
class RefusedFree final : public spi::Segment {
 public:
  explicit RefusedFree(std::atomic<bool>& freed) : freed_(freed) {
    device = &host_device().state();
    size = 4096;
  }
  [[nodiscard]] bool frees_in_order() const noexcept override { return true; }
  bool free_in_order(spi::StreamState&) noexcept override { return false; }

 private:
  ~RefusedFree() override { freed_ = true; }
  std::atomic<bool>& freed_;
};

TEST(Reclaim, ARefusedFreeLeaksAndSaysSoWhenItCannotBeHandedOver) {
  auto* fake = new FakeStream;
  const auto stream = spi::Ref<spi::StreamState>::adopt(fake);
  FailingAllocations injector(host_device());
  std::size_t leaks = 0;
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    injector.settle();  // no thread is there already
    std::atomic<bool> freed{false};
    auto* segment = new RefusedFree(freed);
    spi::Op op = spi::FreeOp{spi::Ref<spi::Segment>::adopt(segment)};
    injector.arm(nth, 0);
    const auto value = fake->put(std::move(op));
    const bool refused = injector.disarm().has_value();
    EXPECT_FALSE(freed) << "before the driver was through with it";
    fake->finish(value);
    detail::drain_releases(host_device().state());
    const auto reports = take_reports();
    EXPECT_EQ(reports.size(), refused ? 1U : 0U);
    const bool leaked = !reports.empty() && reports[0].message.find("leaked") != std::string::npos;
    EXPECT_EQ(freed, !leaked);
    if (leaked) {
      segment->release();
      ++leaks;
    }
    if (!refused) break;
  }
  EXPECT_GE(leaks, 2U) << "no failing allocation was tried";
}

// The consumer's stream is recorded when the tensor is made: its end finds no memory, and must not need any.
TEST(Reclaim, ATensorThatEndsWithoutMemoryIsNotFreedUnderItsConsumer) {
  FailingAllocations injector(host_device());
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    const auto resource = make_resource(host_device());
    const Stream home(host_device()), consumer(host_device());
    Hold hold;
    Buffer buffer = resource->allocate(4096, home);
    spi::Segment* const segment = buffer.location().segment;
    home.synchronize();
    DLManagedTensorVersioned* const tensor = buffer.view(u8, {4096}).to_dlpack(consumer).release();
    buffer.close();
    consumer.wait(hold.event());
    consumer.call([segment] { segment->host[0] = std::byte{1}; });
    injector.arm(nth, 0);
    tensor->deleter(tensor);
    const bool refused = injector.disarm().has_value();
    EXPECT_EQ(resource->stats().reserved, 4096U) << "freed while the consumer was to write to it";
    hold.open();
    consumer.synchronize();
    detail::drain_releases(host_device().state());
    const auto reports = take_reports();
    EXPECT_EQ(reports.size(), refused ? 1U : 0U);
    const bool leaked = !reports.empty() && reports[0].message.find("leaked") != std::string::npos;
    EXPECT_EQ(resource->stats().reserved, leaked ? 4096U : 0U);
    if (leaked) segment->release();
    if (!refused) break;
    ASSERT_LT(nth, 100U);
  }
}

}  // namespace
}  // namespace weir::test
