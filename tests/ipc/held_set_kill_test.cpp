// SPDX-License-Identifier: Apache-2.0
// Sets in a holder, with the holder, the writer and the reader in processes of their own, each of which is killed.

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fixture.hpp"
#include "holding.hpp"
#include "settle.hpp"
#include "time_limits.hpp"
#include "weir/held_set.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::SetReader;
using ipc::SetWriter;

const std::chrono::seconds limit = answer_limit();
constexpr int count = 20;

// What stands over a memory is nothing to another process, so the plain ones are enough.
std::vector<Memory> plain_exportable() {
  std::vector<Memory> plain;
  for (Memory& memory : few_memories()) {
    if (memory.exportable) plain.push_back(std::move(memory));
  }
  return plain;
}

class HeldSetProcesses : public OnMemory {
 protected:
  HolderProcess holder;

  [[nodiscard]] Child spawn(const std::string& mode) const {
    return {WEIR_CHILD_DIR "/hold_child", {mode, holder.path(), device().id(), std::to_string(count)}};
  }
  void check(const ipc::HeldSet& set) const {
    ASSERT_EQ(set.tensors.size(), static_cast<std::size_t>(count));
    for (std::uint32_t i = 0; i < count; ++i)
      EXPECT_BYTES(read(set.tensors.at(std::to_string(i)).buffer(), stream), pattern(500 + i, i));
  }
};
WEIR_FOR_EACH(HeldSetProcesses, plain_exportable(), MemoryName);

TEST_P(HeldSetProcesses, AKilledWriterLeavesWhatItCommitted) {
  Child writer = spawn("commit");
  ASSERT_EQ(writer.line(), "added");
  writer.say("go");
  ASSERT_EQ(writer.line(), "committed");
  writer.kill();
  SetReader reader(holder.path(), "weights");
  check(reader.open(stream, limit));
  Child other = spawn("open");
  EXPECT_EQ(other.line(), "holds");
  other.say("go");
  EXPECT_EQ(other.line(), "done");
}

TEST_P(HeldSetProcesses, AKilledWriterLeavesNothingThatItDidNotCommit) {
  Child writer = spawn("commit");
  ASSERT_EQ(writer.line(), "added");
  writer.kill();
  SetReader reader(holder.path(), "weights");
  EXPECT_ERROR(reader.open(stream, 1ms), Errc::timed_out, "held set");
  Child next = spawn("commit");
  ASSERT_EQ(next.line(), "added");
  next.say("go");
  check(reader.open(stream, limit));
}

TEST_P(HeldSetProcesses, AKilledReaderLetsThePoolHaveItsMemory) {
  const ResourcePtr pool = make_pool(resource, {.exportable = true});
  SetWriter writer(holder.path(), "weights");
  for (std::uint32_t i = 0; i < count; ++i) {
    Buffer buffer = pool->allocate(500 + i, stream);
    write(buffer, pattern(500 + i, i), stream);
    writer.add(std::to_string(i), buffer.view(u8, {500 + i}), stream);
  }
  writer.commit(limit);
  Child reader = spawn("open");
  ASSERT_EQ(reader.line(), "holds");
  writer.remove(limit);
  pool->trim(0);
  EXPECT_GT(pool->stats().in_use, 0U);
  reader.kill();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (pool->stats().in_use != 0 && std::chrono::steady_clock::now() < deadline) await_releases();
  EXPECT_EQ(pool->stats().in_use, 0U);
}

TEST_P(HeldSetProcesses, WhoHasTheTensorsKeepsThemWhenTheHolderIsKilled) {
  const ResourcePtr pool = make_pool(resource, {.exportable = true});
  SetWriter writer(holder.path(), "weights");
  for (std::uint32_t i = 0; i < count; ++i) {
    Buffer buffer = pool->allocate(500 + i, stream);
    write(buffer, pattern(500 + i, i), stream);
    writer.add(std::to_string(i), buffer.view(u8, {500 + i}), stream);
  }
  writer.commit(limit);
  SetReader here(holder.path(), "weights");
  ipc::HeldSet set = here.open(stream, limit);
  Child there = spawn("open");
  ASSERT_EQ(there.line(), "holds");
  holder.kill();
  EXPECT_ERROR(here.open(stream, limit), Errc::peer_gone, "weir hold");
  EXPECT_ERROR(writer.commit(limit), Errc::peer_gone, "weir hold");
  EXPECT_ERROR(writer.commit(limit), Errc::peer_gone, "weir hold");  // also when it tries to connect again
  for (int i = 0; i < 2 * count; ++i) pool->allocate(500, stream).fill(std::uint8_t{0xff}, stream);
  stream.synchronize();
  check(set);
  there.say("go");
  EXPECT_EQ(there.line(), "done");
  set.tensors.clear();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (pool->stats().in_use != 0 && std::chrono::steady_clock::now() < deadline) await_releases();
  EXPECT_EQ(pool->stats().in_use, 0U);
}

// Lines of the child come over a socket pair, so it is stopped only after it has said all of them.
TEST_P(HeldSetProcesses, AStoppedReaderHoldsUpNobody) {
  Child first = spawn("commit");
  ASSERT_EQ(first.line(), "added");
  first.say("go");
  ASSERT_EQ(first.line(), "committed");
  Child stopped = spawn("open");
  ASSERT_EQ(stopped.line(), "holds");
  stopped.stop();
  SetReader reader(holder.path(), "weights");
  const auto set = reader.open(stream, limit);
  check(set);
  Child second = spawn("commit");
  ASSERT_EQ(second.line(), "added");
  second.say("go");
  ASSERT_EQ(second.line(), "committed");
  check(reader.open(stream, limit, set.epoch));
}

TEST(HolderRestart, TakesThePlaceOfADeadHolder) {
  Folder folder;
  {
    Child dead(WEIR_CHILD_DIR "/hold_child", {"hold", folder / "holder"});
    ASSERT_EQ(dead.line(), "serves");
    EXPECT_ERROR(ipc::Holder(folder / "holder"), Errc::permission_denied, "another holder");
    dead.kill();
  }
  Child next(WEIR_CHILD_DIR "/hold_child", {"hold", folder / "holder"});
  ASSERT_EQ(next.line(), "serves");
  SetWriter writer(folder / "holder", "weights");
  EXPECT_EQ(writer.commit(limit), 1U);
}

}  // namespace
}  // namespace weir::test
