// SPDX-License-Identifier: Apache-2.0
// Releases without memory: most need none; what cannot be handed over leaks and says so, rather than frees what is in use.
#include "stream/releases.hpp"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "hold.hpp"
#include "inject/allocations.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "unit/stream/fake_stream.hpp"
#include "unit/stream/watched_memory.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

// What ends a buffer asks for no memory: it is there since the buffer was made.
TEST(Releases, AskForNoMemory) {
  auto* fake = new FakeStream;
  const Stream stream{spi::Ref<spi::StreamState>::adopt(fake)};
  std::atomic<bool> freed{false};
  const auto resource = std::make_shared<WatchedResource>(freed, true);
  auto* gate = new FakeStream;
  const auto gate_owner = spi::Ref<spi::StreamState>::adopt(gate);
  gate->put(FakeStream::fill());
  detail::ReleaseQueue other{host_device().state()};
  detail::run_after(other, {{spi::Kept(*gate), 1}}, [] {});  // the library's thread is there, and stays
  FailingAllocations injector(host_device());
  for (const bool elsewhere : {false, true}) {
    freed = false;
    const Stream home{host_device()};
    Buffer buffer = resource->allocate(4096, elsewhere ? home : stream);
    const auto value = fake->put(FakeStream::fill());
    if (elsewhere) buffer.use_on(stream);
    EXPECT_FALSE(fake->reached(value));  // marked, so that asking again needs no memory
    injector.arm(1, 1);
    buffer.close();
    EXPECT_FALSE(injector.disarm().has_value());
    EXPECT_FALSE(freed);
    fake->finish(value);
    resource->trim(0);
    EXPECT_TRUE(freed);
  }
  gate->finish(1);
  other.drain();
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

TEST(Releases, ARefusedFreeLeaksAndSaysSoWhenItCannotBeHandedOver) {
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
TEST(Releases, ATensorThatEndsWithoutMemoryIsNotFreedUnderItsConsumer) {
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
