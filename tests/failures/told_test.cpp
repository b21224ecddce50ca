// SPDX-License-Identifier: Apache-2.0
// What has no caller that could be thrown at is told to the sink, also when there is no memory, or no thread,
// to tell it.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <memory>
#include <sstream>

#include "base/file_closer.hpp"
#include "busy_pipe.hpp"
#include "fds.hpp"
#include "hold.hpp"
#include "inject/allocations.hpp"
#include "inject/system_calls.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "stream/releases.hpp"
#include "unit/stream/fake_stream.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/logging.hpp"
#include "weir/adaptors/tracking.hpp"
#include "weir/buffer.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

constexpr std::size_t most = 100;  // allocations of one function: more means that its loop does not end

class Told : public testing::Test {
 protected:
  /// Run `function` with its first allocation failing, then its second, and so on, until none fails; `check`
  /// after each.
  template <class Prepare, class Function, class Check>
  void fail_each(Prepare prepare, Function function, Check check) {
    for (std::size_t nth = 1; nth < most; ++nth) {
      SCOPED_TRACE("allocation " + std::to_string(nth));
      auto object = prepare();
      injector.arm(nth, 0);
      function(object);
      const bool refused = injector.disarm().has_value();
      check(refused, take_reports());
      if (!refused) return;
    }
    FAIL() << "it never ends";
  }

  FailingAllocations injector{host_device()};
  Stream stream{host_device()};
};

TEST_F(Told, ALostStreamAlsoWithoutMemoryForTheReason) {
  auto* fake = new FakeStream;
  const auto owner = spi::Ref<spi::StreamState>::adopt(fake);
  fake->put(FakeStream::fill());
  EXPECT_FALSE(fake->reached(1));
  fake->break_device();
  injector.arm(1, 1);
  EXPECT_FALSE(fake->reached(1));
  EXPECT_TRUE(injector.disarm().has_value());
  EXPECT_TRUE(fake->lost());
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "stream");
  EXPECT_EQ(reports[0].message, "std::bad_alloc");
}

// The pool waits for its last use, which takes no memory but for a thread.
TEST_F(Told, TheEndOfAStreamNeedsNoMemory) {
  const auto pool = make_pool(make_resource(host_device()),
                              {.limit = 4096, .segment_bytes = 4096, .reuse = ReusePolicy::passed_only});
  auto* fake = new FakeStream;
  {
    const Stream ending{spi::Ref<spi::StreamState>::adopt(fake)};
    Buffer buffer = pool->allocate(4096, ending);
    fake->put(FakeStream::fill());
    EXPECT_FALSE(fake->reached(1));  // marked: no more memory is needed to ask
    buffer.close();
    take_reports();
    injector.arm(1, 1);
  }
  (void)injector.disarm();
  for (const Reported& each : take_reports()) {
    EXPECT_EQ(each.where, "release of memory");
    EXPECT_EQ(each.message.rfind("no thread to wait for the last use of memory: ", 0), 0U) << each.message;
  }
  EXPECT_FALSE(pool->try_allocate(4096, stream).has_value()) << "its work is not over";
  fake->finish(1);
  EXPECT_TRUE(pool->try_allocate(4096, stream).has_value());
  const auto gone = [](const void* of) { return static_cast<const Pool*>(of)->pool_stats().streams == 1; };
  EXPECT_TRUE(eventually(gone, pool.get())) << "the next who needs the thread starts it";
}

/// Something that waits for a stream, when no thread could be started to look after it.
struct Unwatched {
  Unwatched() {
    calls.settle();  // no thread is there already
    fake->put(FakeStream::fill());
    calls.arm(1, 0);
    detail::run_after(queue, {{spi::Kept(*fake), 1}}, [to = done] { *to = true; });
    EXPECT_EQ(calls.disarm()->call, "thread");
  }

  FailingSystemCalls calls{host_device()};
  FakeStream* const fake = new FakeStream;
  const spi::Ref<spi::StreamState> owner = spi::Ref<spi::StreamState>::adopt(fake);
  const std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
  detail::ReleaseQueue queue{host_device().state()};
};

TEST_F(Told, NoThreadToWaitForTheLastUseOfMemory) {
  Unwatched waiting;
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "release of memory");
  EXPECT_EQ(reports[0].message.rfind("no thread to wait for the last use of memory: ", 0), 0U) << reports[0].message;
  EXPECT_FALSE(*waiting.done);
  waiting.fake->finish(1);
  waiting.queue.drain();
  EXPECT_TRUE(*waiting.done) << "whoever waits needs no thread";
}

TEST_F(Told, WhoeverTrimsStartsTheThreadThatIsMissing) {
  const Unwatched waiting;
  EXPECT_EQ(take_reports().size(), 1U);
  waiting.fake->finish(1);
  make_resource(host_device())->trim(0);  // of something else
  const auto done = [](const void* of) { return static_cast<const std::atomic<bool>*>(of)->load(); };
  EXPECT_TRUE(eventually(done, waiting.done.get()));
}

TEST_F(Told, NoThreadToCloseAStrangersFile) {
  FailingSystemCalls calls(host_device());
  calls.settle();
  auto [reads, writes] = pipe_pair();
  calls.arm(1, 0);
  detail::close_apart(std::move(writes));
  EXPECT_EQ(calls.disarm()->call, "thread");
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "thread that closes files of other processes");
  EXPECT_EQ(detail::files_to_close(), 1U);
  detail::settle_closes();  // who comes next starts it
  pollfd entry{reads.get(), 0, 0};
  EXPECT_EQ(poll(&entry, 1, -1), 1);
}

// All threads are stuck, and so many files wait that there is no more room.
TEST_F(Told, NoMemoryToRememberAStrangersFile) {
  std::list<BlockingFile> blocking(8);
  for (BlockingFile& file : blocking) detail::close_apart(file.take());
  detail::settle_closes();
  const auto [reads, file] = pipe_pair();  // as those that block are
  int last = -1;
  bool refused = false;
  while (!refused) {
    spi::UniqueFd copy = file.duplicate();
    last = copy.get();
    injector.arm(1, 0);
    detail::close_apart(std::move(copy));
    refused = injector.disarm().has_value();
  }
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 2U) << "that further ones stay open, and that this one does for good";
  EXPECT_EQ(reports[1].where, "file of another process");
  EXPECT_EQ(reports[1].message, "it stays open, leaked: std::bad_alloc");
  blocking.clear();
  settle_files();
  EXPECT_EQ(close(last), 0) << "it was not closed";
}

TEST_F(Told, ADamagedBufferAlsoWithoutMemoryToDescribeIt) {
  const auto debug = make_debug(make_resource(host_device()), {.quarantine_bytes = 0});
  std::size_t undescribed = 0, described = 0;
  fail_each(
      [&] {
        Buffer buffer = debug->allocate(1000, stream);
        stream.synchronize();
        buffer.host_data()[1000] = std::byte{1};
        return buffer;
      },
      [](Buffer& buffer) { buffer.close(); },
      [&](bool refused, const std::vector<Reported>& reports) {
        ASSERT_EQ(reports.size(), 1U);
        EXPECT_EQ(reports[0].where, debug->name());
        const auto says = [&](const char* text) { return reports[0].message.find(text) != std::string::npos; };
        undescribed += says("a buffer was damaged; std::bad_alloc while that was described") ? 1 : 0;
        described += says("after its end were overwritten") ? 1 : 0;
        EXPECT_TRUE(refused || says("after its end were overwritten")) << reports[0].message;
      });
  EXPECT_GE(undescribed, 1U);
  EXPECT_EQ(debug->violations(), undescribed + described);
}

TEST_F(Told, UsesThatATraceHasNoMemoryFor) {
  const Stream user(host_device());
  const auto text = std::make_shared<std::ostringstream>();
  const auto logging = make_logging(make_resource(host_device()), text);
  Hold hold;
  user.wait(hold.event());
  std::size_t untold = 0;
  spi::Segment* segment = nullptr;
  fail_each(
      [&] {
        Buffer buffer = logging->allocate(1000, stream);
        buffer.use_on(user);
        segment = buffer.location().segment;
        return buffer;
      },
      [](Buffer& buffer) { buffer.close(); },
      [&](bool refused, const std::vector<Reported>& reports) {
        EXPECT_TRUE(refused || reports.empty());
        for (const Reported& report : reports) {
          const bool of_uses = report.where == "trace of a resource";
          untold += of_uses ? 1 : 0;
          if (report.message.find("leaked") != std::string::npos) segment->release();
          EXPECT_EQ(report.message == "a buffer's uses are not written", of_uses) << report.message;
        }
      });
  EXPECT_GE(untold, 1U);
  logging->flush();
  EXPECT_NE(text->str().find("\tuse\t"), std::string::npos) << "where there was memory";
  hold.open();
  user.synchronize();
}

TEST_F(Told, LeaksAlsoWithoutMemoryToListThem) {
  std::size_t unlisted = 0;
  std::vector<Buffer> left;
  fail_each(
      [&] {
        auto tracking = make_tracking(make_resource(host_device()));
        left.clear();
        left.push_back(tracking->allocate(1000, stream));
        return tracking;
      },
      [](TrackingPtr& tracking) { tracking.reset(); },
      [&](bool refused, const std::vector<Reported>& reports) {
        ASSERT_GE(reports.size(), 1U);
        EXPECT_EQ(reports[0].where.rfind("tracking(", 0), 0U);
        unlisted += reports.back().message == "std::bad_alloc" ? 1 : 0;
        EXPECT_EQ(refused, reports.back().message == "std::bad_alloc") << reports.back().message;
      });
  EXPECT_GE(unlisted, 2U);
}

}  // namespace
}  // namespace weir::test
