// SPDX-License-Identifier: Apache-2.0
// Calls of one reader or writer take turns, and none waits for its turn beyond its time limit.

#include <chrono>
#include <cstdint>

#include "expect.hpp"
#include "gate.hpp"
#include "holding.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "waiting.hpp"
#include "weir/held_set.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::SetReader;
using ipc::SetWriter;

const std::chrono::seconds limit = answer_limit();

class HeldSetTurns : public testing::Test {
 protected:
  [[nodiscard]] Tensor tensor() const {
    return {host::make_shared_resource()->allocate(100, stream), Layout::compact(u8, {100})};
  }
  HolderThread holder;
  const Stream stream{host_device()};
};

TEST_F(HeldSetTurns, AnOpenWaitsForAnotherNoLongerThanItMay) {
  SetReader reader(holder.path(), "a");
  SetWriter writer(holder.path(), "a");
  std::uint64_t epoch = 0;
  {
    const Waiting other([&] { epoch = reader.open(stream, limit).epoch; });
    EXPECT_ERROR(reader.open(stream, 5ms), Errc::timed_out, "another thread");
    writer.add("t", tensor(), stream);
    (void)writer.commit(limit);
  }
  EXPECT_EQ(epoch, reader.open(stream, limit).epoch);
}

TEST_F(HeldSetTurns, ACommitIsWaitedForNoLongerThanAllowed) {
  SetWriter writer(holder.path(), "a");
  Gate gate;
  const Stream held(host_device());
  gate.hold(held);
  writer.add("t", tensor(), held);
  const Waiting other([&] { EXPECT_GT(writer.commit(), 0U); });
  const OnLeaving opens([&] { gate.open(); });
  EXPECT_ERROR(writer.commit(5ms), Errc::timed_out, "another thread");
  EXPECT_ERROR(writer.remove(5ms), Errc::timed_out, "another thread");
}

}  // namespace
}  // namespace weir::test
