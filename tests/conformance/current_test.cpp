// SPDX-License-Identifier: Apache-2.0
// The resource that a process agreed on for each device.

#include "weir/current_resource.hpp"

#include <array>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "alone.hpp"
#include "fixture.hpp"
#include "threads.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

constexpr int thread_count = 8;

void in_threads(const std::function<void(std::size_t)>& body) {
  std::latch begin(thread_count);
  std::vector<Thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      body(t);
    });
  }
  for (Thread& thread : threads) thread.join();
}

class Current : public OnDevice {
 protected:
  void TearDown() override {
    set_current_resource(device(), nullptr);
    OnDevice::TearDown();
  }
  [[nodiscard]] ResourcePtr make() const { return make_limiting(make_resource(device()), std::size_t{1} << 40U); }
};
WEIR_FOR_EACH_DEVICE(Current);

TEST_P(Current, IsAPoolOfTheDeviceAtFirst) {
  const ResourcePtr pool = current_resource(device());
  EXPECT_EQ(pool->device(), device());
  EXPECT_EQ(pool->name(), make_pool(device())->name());
  EXPECT_EQ(current_resource(device()), pool) << "one for the process";
  Buffer buffer = pool->allocate(1000, stream);
  EXPECT_EQ(buffer.memory_resource(), pool);
  buffer.fill(std::uint8_t{7}, stream);
  Bytes seen(1000);
  buffer.copy_to(seen, stream);
  stream.synchronize();
  EXPECT_EQ(seen, Bytes(1000, std::byte{7}));
}

TEST_P(Current, IsThatOfTheBestDeviceWhenNoneIsNamed) {
  EXPECT_EQ(current_resource(), current_resource(best_device()));
}

TEST_P(Current, SettingReturnsThePreviousOne) {
  const ResourcePtr pool = current_resource(device()), mine = make(), other = make();
  EXPECT_EQ(set_current_resource(device(), mine), pool);
  EXPECT_EQ(current_resource(device()), mine);
  EXPECT_EQ(set_current_resource(device(), other), mine);
  EXPECT_EQ(set_current_resource(device(), nullptr), other);
  EXPECT_EQ(current_resource(device()), pool) << "null is the pool, the same while somebody has it";
  for (const Device& elsewhere : devices()) {
    EXPECT_EQ(current_resource(elsewhere)->device(), elsewhere);
  }
}

TEST_P(Current, NobodyElseKeepsAPoolThatWasReplaced) {
  std::weak_ptr<MemoryResource> pool = current_resource(device());
  set_current_resource(device(), make());
  EXPECT_TRUE(pool.expired());
  set_current_resource(device(), nullptr);
  const ResourcePtr next = current_resource(device());
  EXPECT_NE(next, nullptr);
  EXPECT_EQ(next->stats().allocations, 0U) << "a new one";
}

TEST_P(Current, BuffersStayWithTheResourceTheyCameFrom) {
  const ResourcePtr mine = make();
  set_current_resource(device(), mine);
  Buffer buffer = current_resource(device())->allocate(100, stream);
  set_current_resource(device(), nullptr);
  EXPECT_EQ(buffer.memory_resource(), mine);
  EXPECT_EQ(mine->stats().live_buffers, 1U);
  buffer.close();
  EXPECT_EQ(mine->stats().live_buffers, 0U);
}

TEST_P(Current, AResourceOfAnotherDeviceIsRefused) {
  const ResourcePtr before = current_resource(device());
  for (const Device& other : devices()) {
    if (other == device()) continue;
    const ResourcePtr theirs = make_resource(other);
    EXPECT_ERROR(set_current_resource(device(), theirs), Errc::incompatible, other.id());
    EXPECT_ERROR(set_current_resource(device(), theirs), Errc::incompatible, device().id());
    EXPECT_EQ(current_resource(device()), before);
    EXPECT_EQ(theirs.use_count(), 1);
  }
}

// Each resource that was put in comes out once, or is the last.
TEST_P(Current, EightThreadsExchangeIt) {
  std::array<ResourcePtr, 4> ours;
  for (ResourcePtr& one : ours) one = make();
  set_current_resource(device(), ours[0]);
  std::array<std::map<const MemoryResource*, long>, thread_count> balances;
  const std::size_t times = device() == host_device() ? 100000 : 1000;  // the same code for all devices
  in_threads([&](std::size_t t) {
    const Stream own(device());
    for (std::size_t i = 0; i < times; ++i) {
      const ResourcePtr& next = ours.at((t + i) % ours.size());
      ++balances.at(t)[next.get()];
      --balances.at(t)[set_current_resource(device(), next).get()];
      const ResourcePtr now = current_resource(device());
      if (i % 1000 != 0) continue;
      EXPECT_EQ(now->allocate(64, own).memory_resource(), now);
    }
  });
  std::map<const MemoryResource*, long> sum{{ours[0].get(), 1}};
  for (const auto& balance : balances) {
    for (const auto& [resource, count] : balance) sum[resource] += count;
  }
  const ResourcePtr last = set_current_resource(device(), nullptr);
  for (const auto& [resource, count] : sum) EXPECT_EQ(count, resource == last.get() ? 1 : 0);
  EXPECT_EQ(sum.size(), ours.size());
}

TEST_P(Current, EightThreadsMakeOnePool) {
  for (int round = 0; round < 20; ++round) {
    set_current_resource(device(), make());  // nobody has the pool now
    std::array<ResourcePtr, thread_count> found;
    in_threads([&](std::size_t t) {
      set_current_resource(device(), nullptr);
      found.at(t) = current_resource(device());
    });
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1U);
  }
}

// Where nobody has asked before.
TEST(CurrentAlone, DISABLED_FirstUse) {
  std::array<ResourcePtr, thread_count> found;
  in_threads([&](std::size_t t) { found.at(t) = current_resource(host_device()); });
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1U);
  EXPECT_EQ(found[0]->device(), host_device());
}
TEST(CurrentAlone, EightThreadsAskFirst) { EXPECT_TRUE(passes_alone("CurrentAlone.DISABLED_FirstUse", {})); }

}  // namespace
}  // namespace weir::test
