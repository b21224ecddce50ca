// SPDX-License-Identifier: Apache-2.0
// Containers of the standard library in every memory that the host can access.

#include "weir/interop/pmr.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <latch>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fixture.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

bool is_aligned(const void* address, std::size_t alignment) {
  return address && reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

class Pmr : public OnMemory {
 protected:
  /// Of buffers that are not closed.
  [[nodiscard]] std::size_t live() const { return resource->stats().live_buffers; }
};
WEIR_FOR_EACH_HOST_ACCESSIBLE(Pmr);

TEST_P(Pmr, ContainersLiveInIt) {
  PmrResource memory(resource);
  EXPECT_EQ(memory.upstream(), resource);
  {
    std::pmr::vector<int> numbers(&memory);
    for (int i = 0; i < 5000; ++i) numbers.push_back(i);
    std::pmr::unordered_map<int, std::pmr::string> words(&memory);
    for (int i = 0; i < 50; ++i) words.emplace(i, std::string(100, static_cast<char>('a' + i % 26)));
    EXPECT_GT(live(), 100U);
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0), 5000 * 4999 / 2);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(words.at(i)[99], 'a' + i % 26);
    EXPECT_EQ(words.at(7).get_allocator().resource(), &memory);
  }
  EXPECT_EQ(live(), 0U);
}

TEST_P(Pmr, ResourcesOfTheLibraryStandOnIt) {
  PmrResource memory(resource);
  {
    std::pmr::monotonic_buffer_resource monotonic(&memory);
    std::pmr::unsynchronized_pool_resource unsynchronized(&memory);
    std::pmr::synchronized_pool_resource synchronized(&memory);
    for (std::pmr::memory_resource* one :
         std::initializer_list<std::pmr::memory_resource*>{&monotonic, &unsynchronized, &synchronized}) {
      std::pmr::vector<std::pmr::string> words(one);
      for (int i = 0; i < 200; ++i)
        words.emplace_back("a string that does not fit into its object " + std::to_string(i));
      EXPECT_EQ(words[150].substr(42), " 150");
    }
    EXPECT_GT(live(), 0U);
    EXPECT_LT(live(), 200U) << "that is what they are for";
  }
  EXPECT_EQ(live(), 0U);
}

TEST_P(Pmr, EveryAlignmentAndSizeHasAnAddressOfItsOwn) {
  PmrResource memory(resource);
  struct Block {
    void* address;
    std::size_t bytes, alignment;
  };
  std::vector<Block> blocks;
  for (std::size_t alignment = 1; alignment <= 1U << 16U; alignment *= 2) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, alignment, 3 * alignment + 1}) {
      void* const address = memory.allocate(bytes, alignment);
      EXPECT_TRUE(is_aligned(address, alignment)) << alignment << " of " << bytes;
      std::memset(address, static_cast<int>(blocks.size() % 251), bytes);
      blocks.push_back({address, bytes, alignment});
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i].address);
    EXPECT_TRUE(std::all_of(bytes, bytes + blocks[i].bytes, [&](auto byte) { return byte == i % 251; })) << i;
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.address < b.address; });
  for (std::size_t i = 1; i < blocks.size(); ++i) EXPECT_NE(blocks[i - 1].address, blocks[i].address);
  for (const Block& block : blocks) memory.deallocate(block.address, block.bytes, block.alignment);
  EXPECT_EQ(live(), 0U);
}

TEST_P(Pmr, ItsEndClosesWhatIsLeft) {
  std::optional<PmrResource> memory(resource);
  for (int i = 0; i < 10; ++i) (void)memory->allocate(1000);
  EXPECT_EQ(live(), 10U);
  memory.reset();
  EXPECT_EQ(live(), 0U);
}

TEST_P(Pmr, ExhaustionIsBadAlloc) {
  PmrResource memory(make_limiting(resource, 100000));
  std::pmr::vector<char> bytes(50000, 'x', &memory);
  EXPECT_THROW(bytes.resize(70000), std::bad_alloc);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 'x'), 50000);
  EXPECT_OUT_OF_MEMORY((void)memory.allocate(60000), "limit");
}

TEST_P(Pmr, WhatIsNotItsOwnIsReported) {
  PmrResource memory(resource), other(resource);
  EXPECT_FALSE(memory.is_equal(other));
  EXPECT_TRUE(memory.is_equal(memory));
  void* const address = memory.allocate(100);
  other.deallocate(address, 100);
  EXPECT_EQ(live(), 1U) << "not the other's";
  EXPECT_EQ(take_reports().size(), 1U);
  memory.deallocate(address, 100);
  EXPECT_TRUE(take_reports().empty());
  memory.deallocate(address, 100);
  EXPECT_EQ(take_reports().size(), 1U) << "twice";
  EXPECT_EQ(live(), 0U);
}

TEST_P(Pmr, EightThreadsShareIt) {
  PmrResource memory(resource);
  struct Block {
    std::size_t* at = nullptr;
    std::size_t count = 0;
  };
  std::array<std::vector<Block>, 8> made;
  std::latch all_made(8);
  std::vector<Thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 40; ++i) {
        const Block block{static_cast<std::size_t*>(memory.allocate((i + 1) * sizeof t, alignof(std::size_t))), i + 1};
        std::fill_n(block.at, block.count, 100 * t + i);
        made.at(t).push_back(block);
        std::pmr::vector<char> gone(i, 'x', &memory);
      }
      all_made.arrive_and_wait();
      const std::size_t other = (t + 1) % 8;  // whose blocks this thread reads and gives back
      for (std::size_t i = 0; i < 40; ++i) {
        const Block& block = made.at(other).at(i);
        EXPECT_EQ(std::count(block.at, block.at + block.count, 100 * other + i), static_cast<long>(block.count));
        memory.deallocate(block.at, block.count * sizeof t, alignof(std::size_t));
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(live(), 0U);
}

class PmrOverPool : public OnMemory {};
const Subset plain_and_accessible{
    [](const Memory& memory) { return !memory.stack && !memory.exportable && memory.info.host_accessible; }};
WEIR_FOR_EACH_MEMORY_OF(plain_and_accessible, PmrOverPool);

// All that the pool may have is in use on a stream that stands still.
TEST_P(PmrOverPool, MemoryThatIsStillInUseIsWaitedFor) {
  const std::size_t page = std::max(std::size_t{1} << 20U, info().granularity);
  const auto pool = make_pool(resource, {.limit = page, .segment_bytes = page});
  PmrResource memory(pool);
  Gate gate;
  Buffer busy = pool->allocate(page, stream);
  gate.hold(stream);
  busy.fill(std::uint8_t{1}, stream);
  busy.close();
  std::atomic<bool> opened{false};
  auto allocated = std::async(std::launch::async, [&] {
    void* const address = memory.allocate(page);
    const bool in_time = opened;
    std::memset(address, 2, page);
    return std::pair(static_cast<unsigned char*>(address), in_time);
  });
  const auto returned = [&] { return allocated.wait_for(std::chrono::seconds{0}) == std::future_status::ready; };
  while (pool->pool_stats().waits == 0 && !returned()) std::this_thread::yield();
  opened = true;
  gate.open();
  const auto [bytes, in_time] = allocated.get();
  stream.synchronize();
  EXPECT_TRUE(in_time) << "it was given out while the fill was still to come";
  EXPECT_EQ(std::count(bytes, bytes + page, 2), static_cast<std::ptrdiff_t>(page));
  memory.deallocate(bytes, page);
}

class PmrElsewhere : public OnMemory {};
const Subset inaccessible{[](const Memory& memory) { return !memory.info.host_accessible; }};
WEIR_FOR_EACH_MEMORY_OF(inaccessible, PmrElsewhere);

TEST_P(PmrElsewhere, MemoryThatTheHostDoesNotReachIsRefused) {
  for (const KindInfo& kind : device().kinds()) {
    if (!kind.host_accessible) continue;
    EXPECT_ERROR(PmrResource{resource}, Errc::unsupported, to_string(kind.kind));
  }
  EXPECT_EQ(resource.use_count(), 1);
}

TEST(PmrAlone, NullIsRefused) { EXPECT_ERROR(PmrResource{nullptr}, Errc::invalid_argument, "upstream"); }

}  // namespace
}  // namespace weir::test
