// SPDX-License-Identifier: Apache-2.0
// Memory that is closed while another stream uses it: what waits for the same comes back together, and nothing comes back
// with what it did not wait for.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stream/fake_stream.hpp"
#include "weir/buffer.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

constexpr std::size_t page = 4096, pages = 8;

std::size_t waiting_in(const std::string& dump) {
  constexpr auto state = "\"state\":\"waiting\"";
  std::size_t count = 0;
  for (auto at = dump.find(state); at != std::string::npos; at = dump.find(state, at + 1)) ++count;
  return count;
}

/// A pool of a few pages, and two streams that only do what they are told. Its stream has closed memory before.
class WaitingTogether : public testing::Test {
 protected:
  WaitingTogether() {
    for (auto& fake : fakes) {
      fake = new test::FakeStream;
      fake->behaviour.on_end = [ended = ended] { ++*ended; };
      users.emplace_back(spi::Ref<spi::StreamState>::adopt(fake));
    }
    work_on(0);
    work_on(1);
    for (Buffer& buffer : buffers) buffer = pool->allocate(page, home);
    buffers[pages - 1].close();
  }

  void work_on(int user) { fakes[user]->put(test::FakeStream::fill()); }
  /// How many pages can be had, which ends the caches' knowledge of what was closed.
  std::size_t free_pages() {
    std::vector<Buffer> got;
    while (auto buffer = pool->try_allocate(page, home)) got.push_back(std::move(*buffer));
    return got.size();
  }

  const ResourcePtr upstream = make_resource(host_device());
  PoolPtr pool = make_pool(upstream, {.limit = pages * page,
                                      .segment_bytes = pages * page,
                                      .reuse = ReusePolicy::passed_only,
                                      .patience = {}});
  const Stream home{host_device()};
  const std::shared_ptr<std::atomic<int>> ended = std::make_shared<std::atomic<int>>(0);
  std::array<test::FakeStream*, 2> fakes{};
  std::vector<Stream> users;
  std::array<Buffer, pages> buffers;
};

TEST_F(WaitingTogether, ForOnePoint) {
  for (int i = 0; i < 3; ++i) buffers[i].close(users[0]);
  buffers[3].use_on(users[0]);  // recorded beforehand
  buffers[3].close();
  EXPECT_EQ(pool->stats().live_buffers, 3U);
  const auto dump = pool->dump();
  EXPECT_NE(dump.find("\"waiting\":" + std::to_string(4 * page)), std::string::npos) << dump;
  EXPECT_EQ(waiting_in(dump), 4U) << dump;
  EXPECT_EQ(free_pages(), 1U);
  fakes[0]->finish(1);
  fakes[1]->finish(1);
  EXPECT_EQ(free_pages(), 5U);
  users.clear();
  while (*ended != 2) std::this_thread::yield();  // nothing uses them any more
}

TEST_F(WaitingTogether, NotWithAnEarlierPoint) {
  buffers[0].close(users[0]);
  buffers[1].close(users[0]);
  work_on(0);
  buffers[2].close(users[0]);
  buffers[3].close(users[0]);
  fakes[0]->finish(1);
  EXPECT_EQ(free_pages(), 3U);
  fakes[0]->finish(2);
  EXPECT_EQ(free_pages(), 5U);
}

TEST_F(WaitingTogether, NotWithAnotherStream) {
  buffers[0].close(users[0]);
  buffers[1].close(users[1]);  // the same value
  fakes[0]->finish(1);
  EXPECT_EQ(free_pages(), 2U);
  fakes[1]->finish(1);
  EXPECT_EQ(free_pages(), 3U);
}

TEST_F(WaitingTogether, NotWhenThereIsMoreToWaitFor) {
  buffers[0].close(users[0]);
  buffers[1].use_on(users[1]);
  buffers[1].close(users[0]);
  buffers[2].use_on(users[0]);
  buffers[2].close(users[1]);
  buffers[3].close(users[0]);
  fakes[0]->finish(1);
  EXPECT_EQ(free_pages(), 3U);
  fakes[1]->finish(1);
  EXPECT_EQ(free_pages(), 5U);
}

TEST_F(WaitingTogether, AgainAndAgain) {
  for (std::uint64_t round = 1; round <= 4; ++round) {
    for (int i = 0; i < 3; ++i) buffers[i].close(users[0]);
    fakes[0]->finish(round);
    for (int i = 0; i < 3; ++i) {  // from the cache, which goes on to be used
      buffers[i] = pool->allocate(page, home);
      buffers[i].fill(std::uint8_t{1}, home);
    }
    work_on(0);
  }
  EXPECT_EQ(pool->pool_stats().grown, 1U);
  EXPECT_EQ(pool->stats().live_buffers, pages - 1);
}

TEST_F(WaitingTogether, NotWithWhatDidSoBefore) {
  buffers[0].close(users[0]);
  fakes[0]->finish(1);
  buffers[pages - 1] = pool->allocate(page, home);
  buffers[0] = pool->allocate(page, home);  // the range that waited
  work_on(0);
  buffers[1].close(users[0]);
  std::thread([&] { buffers[0].close(users[1]); }).join();
  buffers[2].close(users[0]);
  fakes[1]->finish(1);
  EXPECT_EQ(free_pages(), 1U);
  fakes[0]->finish(2);
  EXPECT_EQ(free_pages(), 3U);
}

// An allocation takes what came back into its cache.
TEST_F(WaitingTogether, NotAnyNumber) {
  constexpr std::size_t many = 1000, most_at_once = 512;
  const auto large = make_pool(upstream, {.segment_bytes = many * page});
  std::vector<Buffer> all;
  for (std::size_t i = 0; i < many; ++i) all.push_back(large->allocate(page, home));
  for (Buffer& buffer : all) buffer.close(users[0]);
  fakes[0]->finish(1);
  const Buffer one = large->allocate(page, home);
  EXPECT_EQ(large->pool_stats().grown, 1U);
  EXPECT_GE(waiting_in(large->dump()), many - most_at_once);
}

TEST_F(WaitingTogether, AfterTheLastHandle) {
  for (int i = 0; i < 3; ++i) buffers[i].close(users[0]);
  for (Buffer& buffer : buffers) buffer.close();
  pool.reset();
  EXPECT_NE(upstream->stats().reserved, 0U);
  fakes[0]->finish(1);
  while (upstream->stats().reserved != 0) std::this_thread::yield();
}

}  // namespace
}  // namespace weir::pool
