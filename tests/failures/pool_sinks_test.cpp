// SPDX-License-Identifier: Apache-2.0
// What a pool has reported when its memory waits for streams, and no thread can be started that looks after them. The
// sink is the user's: it may ask the pool, and it may fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

#include "inject/system_calls.hpp"
#include "on_report.hpp"
#include "sink.hpp"
#include "unit/stream/fake_stream.hpp"
#include "weir/buffer.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

class PoolSinks : public testing::Test {
 protected:
  PoolSinks() {
    for (std::size_t i = 0; i < fakes.size(); ++i) {
      fakes[i] = new FakeStream;
      users[i] = Stream(spi::Ref<spi::StreamState>::adopt(fakes[i]));
      fakes[i]->put(FakeStream::fill());
    }
    calls.settle();  // no thread is there already
  }
  /// Drop the last handle of the pool, with no thread to be had.
  void abandon() {
    calls.arm_only("thread", 1, 0);
    pool.reset();
    EXPECT_TRUE(calls.disarm().has_value());
  }
  void finish(std::size_t user) {
    fakes[user]->finish(1);
    (void)fakes[user]->settle();
  }

  FailingSystemCalls calls{host_device()};
  const ResourcePtr upstream = make_resource(host_device());
  PoolPtr pool = make_pool(upstream);
  const Stream home{host_device()};
  std::array<FakeStream*, 2> fakes{};
  std::array<Stream, 2> users{Stream(host_device()), Stream(host_device())};
};

TEST_F(PoolSinks, MayAskThePoolThatNobodyHasAnyMore) {
  const Buffer live = pool->allocate(4096, home);
  Buffer waits = pool->allocate(4096, home);
  waits.use_on(users[0]);
  waits.close();
  const OnReport taken([&] { EXPECT_EQ(live.memory_resource()->stats().live_buffers, 1U); });
  abandon();
  EXPECT_EQ(taken.count(), 1);
  finish(0);
  upstream->trim(0);  // starts the thread that was missing
}

// Memory goes from the queue of one stream to that of another.
TEST_F(PoolSinks, MayForkWhileMemoryMoves) {
  Buffer waits = pool->allocate(4096, home);
  for (const Stream& user : users) waits.use_on(user);
  waits.close();
  abandon();
  EXPECT_EQ(take_reports().size(), 1U);
  pid_t child = -1;
  const OnReport taken([&] {
    child = fork();
    if (child == 0) alarm(20);
  });
  calls.arm_only("thread", 1, 0);
  finish(1);
  (void)calls.disarm();
  finish(0);
  const bool all_is_back = upstream->stats().reserved == 0;
  if (child == 0) _exit(all_is_back ? 0 : 1);
  EXPECT_TRUE(all_is_back);
  EXPECT_EQ(taken.count(), 1);
  ASSERT_GT(child, 0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  upstream->trim(0);  // starts the thread that was missing
}

}  // namespace
}  // namespace weir::test
