// SPDX-License-Identifier: Apache-2.0
// Holders, and writers and readers of sets, that are killed at each step.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "expect.hpp"
#include "holding.hpp"
#include "surviving.hpp"
#include "weir/held_set.hpp"

namespace weir::test {
namespace {

using ipc::HeldSet;
using ipc::SetReader;
using ipc::SetWriter;

class KilledHolding : public Surviving {
 protected:
  void add(SetWriter& writer, std::uint32_t round) const {
    for (std::uint32_t i = 0; i < kill_count; ++i)
      writer.add(std::to_string(i), make(i, round).view(u8, {kill_bytes}), stream);
  }
  void check_set(const HeldSet& set, std::uint32_t round) const {
    ASSERT_EQ(set.tensors.size(), kill_count);
    for (std::uint32_t i = 0; i < kill_count; ++i) check(set.tensors.at(std::to_string(i)).buffer(), i, round);
  }
};
WEIR_FOR_EACH(KilledHolding, one_exportable_each(), MemoryName);

TEST_P(KilledHolding, WritersLeaveWholeSetsAndTheirPlace) {
  const HolderThread holder;
  const auto at_rest = holder.stats();
  std::uint64_t before = 0;  // the last epoch of the earlier writer
  kill_before_each_call("commit", holder.path(), [&](Victim& victim) {
    victim.go();
    std::uint64_t committed = 0;
    while (committed < 2 && victim.line() == "committed") {
      ++committed;
      victim.say("go on");
    }
    (void)victim.end();
    EXPECT_TRUE(comes([&] { return holder.stats().connections == 0; })) << "the dead one still counts";
    const bool is_there = holder.stats().sets == 1;
    ASSERT_TRUE(is_there || committed == 0) << "a committed set is lost";
    SetReader reader(holder.path(), "set");
    if (is_there) {
      const HeldSet set = reader.open(stream, kill_limit);
      const auto epoch = set.epoch - before;
      EXPECT_GE(epoch, std::max<std::uint64_t>(committed, 1));
      EXPECT_LE(epoch, committed + 1);
      check_set(set, static_cast<std::uint32_t>(epoch - 1));
    }
    SetWriter next(holder.path(), "set");
    add(next, 7);
    before = next.commit(kill_limit);
    check_set(reader.open(stream, kill_limit, before - 1), 7);
    next.remove(kill_limit);
    EXPECT_EQ(holder.stats().files, at_rest.files);
    EXPECT_EQ(holder.stats().bytes, at_rest.bytes);
  });
}

TEST_P(KilledHolding, ReadersLetGoOfTheMemory) {
  const HolderThread holder;
  kill_before_each_call("open", holder.path(), [&](Victim& victim) {
    SetWriter writer(holder.path(), "set");
    add(writer, 0);
    (void)writer.commit(kill_limit);
    victim.go();
    const std::string said = victim.line();
    EXPECT_TRUE(said.empty() || said == "done") << said;
    add(writer, 1);
    const auto epoch = writer.commit(kill_limit);
    (void)victim.end();
    SetReader reader(holder.path(), "set");
    check_set(reader.open(stream, kill_limit, epoch - 1), 1);
    writer.remove(kill_limit);
    EXPECT_TRUE(comes([&] { return holder.stats().connections == 2; })) << "the dead one still counts";
  });
}

TEST_P(KilledHolding, HoldersLeaveWhatReadersHaveAndTheirPlace) {
  const Folder folder;
  kill_before_each_call("hold", folder / "holder", [&](Victim& victim) {
    victim.go();
    std::optional<SetWriter> writer;
    bool committed = false;
    std::optional<SetReader> reader;
    std::optional<HeldSet> set;
    if (victim.line() == "serves") {
      writer = got([&] { return SetWriter(folder / "holder", "set"); });
      if (writer) {
        add(*writer, 0);
        committed = done([&] { (void)writer->commit(kill_limit); });
      }
      if (committed) reader = got([&] { return SetReader(folder / "holder", "set"); });
      if (reader) set = got([&] { return reader->open(stream, kill_limit); });
      if (set) check_set(*set, 0);
    }
    (void)victim.end();
    if (writer) {
      EXPECT_ERROR(writer->commit(kill_limit), Errc::peer_gone, "");
    }
    if (reader) {
      EXPECT_ERROR(reader->open(stream, kill_limit), Errc::peer_gone, "");
    }
    if (set) check_set(*set, 0);
    ipc::Holder next(folder / "holder");
    const Thread serving([&] { next.run(); });
    if (writer) {
      if (committed) add(*writer, 0);  // else what was added is still there
      (void)writer->commit(kill_limit);
      SetReader again(folder / "holder", "set");
      const HeldSet kept = again.open(stream, kill_limit);
      check_set(kept, 0);
    }
    next.stop();
  });
}

}  // namespace
}  // namespace weir::test
