// SPDX-License-Identifier: Apache-2.0
// Sets in a holder: writer, reader and holder in this process.

#include "weir/held_set.hpp"

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fds.hpp"
#include "fixture.hpp"
#include "holding.hpp"
#include "settle.hpp"
#include "time_limits.hpp"
#include "upstreams.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"
#include "weir/spi/segment.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::HeldSet;
using ipc::SetReader;
using ipc::SetWriter;

const std::chrono::seconds limit = answer_limit();

Tensor as_bytes(const Buffer& buffer) { return buffer.view(u8, {static_cast<std::int64_t>(buffer.size())}); }

class HeldSets : public OnMemory {
 protected:
  HolderThread holder;

  [[nodiscard]] SetWriter writer(const std::string& name = "weights") const { return {holder.path(), name}; }
  [[nodiscard]] SetReader reader(const std::string& name = "weights") const { return {holder.path(), name}; }

  template <class Wanted>
  bool comes_to(Wanted wanted) const {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!wanted(holder.stats())) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool ends_with(std::size_t sets, std::size_t connections) const {
    return comes_to([=](const ipc::HolderStats& stats) {
      return stats.sets == sets && stats.connections == connections && (sets != 0 || (stats.files == 0 && stats.bytes == 0));
    });
  }
};
WEIR_FOR_EACH_EXPORTABLE(HeldSets);

TEST_P(HeldSets, AReaderHasTheTensorsOfAClosedWriter) {
  {
    SetWriter from = writer();
    const Buffer buffer = filled(pattern(6000, 1));
    from.add("rows", Tensor(buffer.slice(1000, 2000), Layout{f32, {10, 5}, {20, 2}, 8}), stream);
    from.add("all", as_bytes(buffer), stream);
    from.add("empty", resource->allocate(0, stream).view(i64, {0, 3}), stream);
    EXPECT_EQ(from.commit(limit), 1U);
  }
  SetReader to = reader();
  const HeldSet set = to.open(stream, limit);
  EXPECT_EQ(set.epoch, 1U);
  ASSERT_EQ(set.tensors.size(), 3U);
  const Tensor& rows = set.tensors.at("rows");
  EXPECT_EQ(rows.layout().dtype, f32);
  EXPECT_EQ(rows.layout().shape, (std::vector<std::int64_t>{10, 5}));
  EXPECT_EQ(rows.layout().strides, (std::vector<std::int64_t>{20, 2}));
  EXPECT_EQ(rows.layout().byte_offset, 8U);
  EXPECT_BYTES(read(rows.buffer(), stream), part(pattern(6000, 1), 1000, 2000));
  EXPECT_BYTES(read(set.tensors.at("all").buffer(), stream), pattern(6000, 1));
  EXPECT_EQ(set.tensors.at("empty").layout().shape, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(rows.buffer().location().segment, set.tensors.at("all").buffer().location().segment);
}

TEST_P(HeldSets, OthersMayStandOverTheResourceOfTheTensors) {
  SetWriter from = writer();
  from.add("a", as_bytes(filled(pattern(600, 1))), stream);
  from.commit(limit);
  SetReader to = reader();
  const HeldSet set = to.open(stream, limit);
  expect_serves_others(set.tensors.at("a").buffer().memory_resource(), stream);
}

TEST_P(HeldSets, CannotBeWritten) {
  SetWriter from = writer();
  from.add("a", as_bytes(filled(pattern(600, 1))), stream);
  from.commit(limit);
  SetReader to = reader();
  HeldSet set = to.open(stream, limit);
  EXPECT_ERROR(set.tensors.at("a").buffer().fill(std::uint8_t{1}, stream), Errc::permission_denied, "");
}

TEST_P(HeldSets, TheWorkOnTheTensorsComesFirst) {
  Buffer buffer = filled(pattern(600, 1));
  SetWriter from = writer();
  const Stream other(host_device());
  Gate gate;
  gate.hold(other);
  buffer.fill(std::uint8_t{9}, other);
  from.add("a", as_bytes(buffer), stream);
  EXPECT_ERROR(from.commit(1ms), Errc::timed_out, "SetWriter::commit");
  SetReader to = reader();
  EXPECT_ERROR(to.open(stream, 1ms), Errc::timed_out, "held set");
  gate.open();
  EXPECT_EQ(from.commit(limit), 1U);
  EXPECT_BYTES(read(to.open(stream, limit).tensors.at("a").buffer(), stream), repeat(600, 9));
}

TEST_P(HeldSets, ANewEpochReplacesTheSetAsAWhole) {
  SetWriter from = writer();
  from.add("a", as_bytes(filled(pattern(600, 1))), stream);
  from.add("b", as_bytes(filled(pattern(600, 2))), stream);
  const auto first = from.commit(limit);
  SetReader to = reader();
  const HeldSet old = to.open(stream, limit);
  EXPECT_ERROR(to.open(stream, 1ms, old.epoch), Errc::timed_out, "held set");
  from.add("a", as_bytes(filled(pattern(700, 3))), stream);
  EXPECT_EQ(to.open(stream, limit).epoch, first);  // what is not committed is not there
  const auto second = from.commit(limit);
  EXPECT_GT(second, first);
  const HeldSet now = to.open(stream, limit, old.epoch);
  EXPECT_EQ(now.epoch, second);
  ASSERT_EQ(now.tensors.size(), 1U);
  EXPECT_BYTES(read(now.tensors.at("a").buffer(), stream), pattern(700, 3));
  EXPECT_BYTES(read(old.tensors.at("a").buffer(), stream), pattern(600, 1));
  EXPECT_BYTES(read(old.tensors.at("b").buffer(), stream), pattern(600, 2));
}

TEST_P(HeldSets, ASegmentCrossesOnceForEachConnection) {
  SetWriter from = writer();
  const Buffer buffer = filled(pattern(6000, 1));
  const auto add_all = [&](std::size_t from_place) {
    for (std::size_t i = from_place; i < 50; ++i) from.add(std::to_string(i), as_bytes(buffer.slice(i * 100, 100)), stream);
  };
  add_all(0);
  from.commit(limit);
  SetReader to = reader();
  const HeldSet first = to.open(stream, limit);
  add_all(25);
  from.commit(limit);
  const HeldSet second = to.open(stream, limit, first.epoch);
  ASSERT_EQ(first.tensors.size(), 50U);
  ASSERT_EQ(second.tensors.size(), 25U);
  const auto* const segment = first.tensors.at("0").buffer().location().segment;
  for (const HeldSet* set : {&first, &second}) {
    for (const auto& [name, tensor] : set->tensors) {
      EXPECT_EQ(tensor.buffer().location().segment, segment);
      EXPECT_BYTES(read(tensor.buffer(), stream), part(pattern(6000, 1), std::stoul(name) * 100, 100));
    }
  }
}

// The buffer is closed right after the commit. Whatever is allocated then gets other memory.
TEST_P(HeldSets, MemoryOfASetIsNotUsedAgain) {
  SetWriter from = writer();
  {
    Buffer buffer = filled(pattern(6000, 1));
    from.add("a", as_bytes(buffer), stream);
    from.commit(limit);
    buffer.close();
  }
  SetReader to = reader();
  HeldSet set = to.open(stream, limit);
  from.commit(limit);  // the holder lets go of it; the reader does not
  (void)open_fds();  // waits for leases that have ended, whose memory is then at hand
  std::vector<Buffer> others;  // no trim before: that would give the segment back, and not to others
  for (int i = 0; i < 4; ++i) {
    others.push_back(resource->allocate(6000, stream));
    others.back().fill(std::uint8_t{0xff}, stream);
  }
  stream.synchronize();
  EXPECT_BYTES(read(set.tensors.at("a").buffer(), stream), pattern(6000, 1));
}

// A buffer that a reader passes on is in use until the next one is done with it.
TEST_P(HeldSets, MemoryThatAReaderPassedOnIsNotUsedAgain) {
  SetWriter from = writer();
  from.add("a", as_bytes(filled(pattern(6000, 1))), stream);
  from.commit(limit);
  SetReader to = reader();
  HeldSet set = to.open(stream, limit);
  const Buffer& mine = set.tensors.at("a").buffer();
  if (!mine.location().segment->exportable) {  // Vulkan exports nothing that it imported
    EXPECT_ERROR(mine.ipc_descriptor(stream), Errc::unsupported, "exportable");
    return;
  }
  const Buffer next = ipc::open(mine.ipc_descriptor(stream), stream);
  set.tensors.clear();
  from.commit(limit);
  (void)open_fds();  // waits for leases that have ended, whose memory is then at hand
  std::vector<Buffer> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(resource->allocate(6000, stream));
    others.back().fill(std::uint8_t{0xff}, stream);
  }
  stream.synchronize();
  EXPECT_BYTES(read(next, stream), pattern(6000, 1));
}

TEST_P(HeldSets, ReadersThatWaitAreTold) {
  SetReader to = reader();
  Thread later([&] {
    SetWriter from = writer();
    from.add("a", as_bytes(filled(pattern(600, 1))), stream);
    from.commit(limit);
  });
  EXPECT_BYTES(read(to.open(stream, limit).tensors.at("a").buffer(), stream), pattern(600, 1));
}

TEST_P(HeldSets, WhatIsNotCommittedVanishesWithItsWriter) {
  {
    SetWriter from = writer();
    from.add("a", as_bytes(filled(pattern(600, 1))), stream);
  }
  EXPECT_TRUE(ends_with(0, 0));
}

TEST_P(HeldSets, ARemovedSetIsGoneAndReadersKeepIt) {
  SetWriter from = writer();
  from.add("a", as_bytes(filled(pattern(600, 1))), stream);
  const auto first = from.commit(limit);
  SetReader to = reader();
  const HeldSet set = to.open(stream, limit);
  from.remove(limit);
  EXPECT_TRUE(ends_with(0, 2));
  EXPECT_ERROR(to.open(stream, 1ms), Errc::timed_out, "held set");
  EXPECT_BYTES(read(set.tensors.at("a").buffer(), stream), pattern(600, 1));
  from.add("a", as_bytes(filled(pattern(600, 2))), stream);
  EXPECT_GT(from.commit(limit), first);
  EXPECT_BYTES(read(to.open(stream, limit, first).tensors.at("a").buffer(), stream), pattern(600, 2));
}

// The writer thinks that the holder has the segment, which went with the other writer's commit.
TEST_P(HeldSets, ASegmentThatTheHolderForgotGoesThereAgain) {
  SetWriter one = writer(), other = writer();
  const Buffer buffer = filled(pattern(600, 1));
  one.add("a", as_bytes(buffer), stream);
  one.commit(limit);
  other.commit(limit);
  EXPECT_TRUE(comes_to([](const ipc::HolderStats& stats) { return stats.files == 0; }));
  one.add("a", as_bytes(buffer), stream);
  one.commit(limit);
  SetReader to = reader();
  EXPECT_BYTES(read(to.open(stream, limit).tensors.at("a").buffer(), stream), pattern(600, 1));
}

TEST_P(HeldSets, SetsOfOneHolderAreApart) {
  SetWriter one = writer("one"), other = writer("other");
  one.add("a", as_bytes(filled(pattern(600, 1))), stream);
  other.add("a", as_bytes(filled(pattern(600, 2))), stream);
  one.commit(limit);
  other.commit(limit);
  SetReader first = reader("one"), second = reader("other");
  EXPECT_BYTES(read(first.open(stream, limit).tensors.at("a").buffer(), stream), pattern(600, 1));
  EXPECT_BYTES(read(second.open(stream, limit).tensors.at("a").buffer(), stream), pattern(600, 2));
}

TEST_P(HeldSets, MemoryOfAnotherProcessIsRefused) {
  SetWriter from = writer();
  from.add("a", as_bytes(filled(pattern(600, 1))), stream);
  from.commit(limit);
  SetReader to = reader();
  const HeldSet set = to.open(stream, limit);
  EXPECT_ERROR(from.add("a", set.tensors.at("a"), stream), Errc::unsupported, "copy it");
}

TEST_P(HeldSets, LeaveNoFilesBehind) {
  const auto round = [&] {
    SetWriter from = writer();
    SetReader to = reader();
    for (int i = 0; i < 5; ++i) {
      from.add("a", as_bytes(filled(pattern(600, 1))), stream);
      (void)to.open(stream, limit, from.commit(limit) - 1);
    }
    from.remove(limit);
  };
  const auto settle = [&] {
    stream.synchronize();
    resource->trim(0);
    await_releases();
  };
  round();
  EXPECT_TRUE(ends_with(0, 0));
  settle();
  const std::size_t few = open_fds() + 4;  // the thread of leases has two files, and lingers
  for (int i = 0; i < 10; ++i) round();
  EXPECT_TRUE(ends_with(0, 0));
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open_fds() > few && std::chrono::steady_clock::now() < deadline) settle();
  EXPECT_LE(open_fds(), few) << describe_fds();
}

}  // namespace
}  // namespace weir::test
