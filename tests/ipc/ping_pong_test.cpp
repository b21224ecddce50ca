// SPDX-License-Identifier: Apache-2.0
// A buffer that goes to and fro between two processes, each of which works on it in stream order: memory of every
// backend, used on streams of every backend at either side. There are 10 000 rounds where both devices reach the memory,
// and 500 where each turn is staged, because 10 000 of those take up to 40 s. WEIR_PING_PONG_ROUNDS=n plays n of each.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "channel_processes.hpp"
#include "gate.hpp"
#include "memory.hpp"
#include "ping_pong.hpp"
#include "time_limits.hpp"
#include "watchdog.hpp"

namespace weir::test {
namespace {

const std::chrono::seconds limit = answer_limit();

/// Memory that is lent, and the devices of the streams on which both sides use it.
struct Pair {
  Memory memory;
  Device here, there;

  [[nodiscard]] bool is_staged() const {
    const auto reaches = [&](const Device& device) {
      return memory.device.backend() == "host" || memory.device.backend() == device.backend();
    };
    return !reaches(here) || !reaches(there);
  }
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) {
  return out << pair.memory.name() << " on " << pair.here.id() << " and " << pair.there.id();
}

std::vector<Pair> pairs() {
  std::vector<Pair> all;
  std::vector<Device> first;
  for (const Device& device : devices()) {
    if (device.ordinal() == 0) first.push_back(device);
  }
  for (const Device& owner : first) {
    const auto& kinds = owner.kinds();
    const auto kind = std::ranges::find_if(kinds, [](const KindInfo& info) { return info.exportable; });
    if (kind == kinds.end()) continue;
    for (const Device& here : first) {
      for (const Device& there : first) all.push_back({{owner, *kind, true}, here, there});
    }
  }
  return all;
}

std::uint64_t rounds_of(const Pair& pair) {
  const char* const said = std::getenv("WEIR_PING_PONG_ROUNDS");
  const std::uint64_t rounds = said ? std::strtoull(said, nullptr, 10) : pair.is_staged() ? 500 : 10000;
  return std::max<std::uint64_t>(rounds / 2 * 2, 2);  // the player here has the first of two
}

class PingPong : public testing::TestWithParam<Pair> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PingPong);
INSTANTIATE_TEST_SUITE_P(Every, PingPong, testing::ValuesIn(pairs()), [](const auto& chosen) {
  const Pair& pair = chosen.param;
  return pair.memory.name() + "_on_" + name_of(pair.here) + "_and_" + name_of(pair.there);
});

// In every second lap, the first turn stands behind a gate until both processes have put all turns of the lap on their
// streams: whatever does not wait for the other process then runs first, and not only when that process is slow.
TEST_P(PingPong, EveryRoundFindsWhatThePeerMadeOfTheLast) {
  constexpr std::uint64_t lap = 20, seed = 7;
  const std::uint64_t end = rounds_of(GetParam());
  const Stream stream(GetParam().here);
  const Child child(WEIR_CHILD_DIR "/ping_pong_child",
                    {GetParam().there.id(), std::to_string(end), std::to_string(seed)});
  ipc::Channel channel = channel_to(child);
  PingPongPlayer player(stream, seed);
  Buffer buffer = GetParam().memory.make()->allocate(PingPongPlayer::bytes, stream);
  write(buffer, PingPongPlayer::before(0, seed), stream);
  for (std::uint64_t begin = 0; begin < end; begin += lap) {
    Watchdog::note_progress();
    Gate gate;
    if (begin / lap % 2 == 0) gate.hold(stream);
    for (std::uint64_t round = begin; round < std::min(end, begin + lap); round += 2) {
      player.take_turn(buffer, round);
      channel.send(buffer, stream, payload_of(round + 1), limit);
      const ipc::Parcel parcel = channel.receive(stream, limit);  // the stream waits for the other player
      ASSERT_EQ(parcel.payload, payload_of(round + 2));
    }
    gate.open();
    stream.synchronize();
    ASSERT_EQ(player.wrong(), "") << "here";
  }
  EXPECT_BYTES(read(buffer, stream), PingPongPlayer::before(end, seed));
  EXPECT_EQ(child.line(), "done");
}

}  // namespace
}  // namespace weir::test
