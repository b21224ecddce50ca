// SPDX-License-Identifier: Apache-2.0
// Channels and descriptors whose other end is killed at each step.

#include <cstdint>
#include <string>
#include <vector>

#include "expect.hpp"
#include "surviving.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

using ipc::Channel;

class KilledBorrowers : public Surviving {};
WEIR_FOR_EACH(KilledBorrowers, one_exportable_each(), MemoryName);

TEST_P(KilledBorrowers, OfAChannelGiveEverythingBack) {
  kill_before_each_call("borrow", "-", [&](Victim& victim) {
    victim.go();
    Channel channel(victim.take_socket());
    bool lent = true;
    for (std::uint32_t i = 0; i < kill_count && lent; ++i)
      lent = done([&] { channel.send(make(i), stream, {}, kill_limit); });
    const Stream mine(device());
    const auto back = got([&] { return channel.receive(mine, kill_limit); });
    if (back) check(back->buffer, mine, kill_count);
    victim.say("go on");
    (void)victim.line();
    (void)victim.end();
    EXPECT_ERROR(channel.receive(stream, kill_limit), Errc::peer_gone, "");
    EXPECT_ERROR(channel.send(make(0), stream, {}, kill_limit), Errc::peer_gone, "");
    if (back) check(back->buffer, mine, kill_count);
    EXPECT_TRUE(comes([&] { return channel.stats().lent == 0; })) << channel.stats().lent;
  });
}

TEST_P(KilledBorrowers, OfDescriptorsGiveEverythingBack) {
  kill_before_each_call("import", "-", [&](Victim& victim) {
    victim.go();
    bool sent = true;
    for (std::uint32_t i = 0; i < kill_count && sent; ++i)
      sent = done([&] { ipc::send(victim.lines(), make(i).ipc_descriptor(stream)); });
    const std::string said = victim.line();
    EXPECT_TRUE(said.empty() || said == "done") << said;
  });
}

class KilledLenders : public Surviving {};
WEIR_FOR_EACH(KilledLenders, one_exportable_each(), MemoryName);

TEST_P(KilledLenders, OfAChannelLeaveWhatWasReceived) {
  kill_before_each_call("lend", "-", [&](Victim& victim) {
    victim.go();
    Channel channel(victim.take_socket());
    const Stream mine(device());
    const std::string said = victim.line();
    EXPECT_TRUE(said.empty() || said == "lent") << said;
    (void)victim.end();
    std::vector<ipc::Parcel> all;
    for (std::uint32_t i = 0; i < kill_count; ++i) {
      auto next = got([&] { return channel.receive(mine, kill_limit); });
      if (!next) break;
      check(next->buffer, mine, i);
      all.push_back(*std::move(next));
    }
    if (!said.empty()) {
      EXPECT_EQ(all.size(), kill_count) << "what was sent before the end can be received";
    }
    EXPECT_ERROR(channel.receive(stream, kill_limit), Errc::peer_gone, "");
    for (std::uint32_t i = 0; i < all.size(); ++i) check(all[i].buffer, mine, i);
    EXPECT_EQ(channel.stats().borrowed, all.size());
  });
}

TEST_P(KilledLenders, OfDescriptorsLeaveWhatWasOpened) {
  kill_before_each_call("export", "-", [&](Victim& victim) {
    victim.go();
    const Stream mine(device());
    std::vector<Buffer> all;
    for (std::uint32_t i = 0; i < kill_count; ++i) {
      auto next = got([&] { return ipc::open(ipc::receive(victim.lines(), kill_limit), mine); });
      if (!next) break;
      check(*next, mine, i);
      all.push_back(*std::move(next));
    }
    (void)victim.end();
    for (std::uint32_t i = 0; i < all.size(); ++i) check(all[i], mine, i);
  });
}

}  // namespace
}  // namespace weir::test
