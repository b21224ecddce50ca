// SPDX-License-Identifier: Apache-2.0
#include "surviving.hpp"

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <system_error>

#include "fds.hpp"
#include "gate.hpp"
#include "settle.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

// A scenario has up to some hundred calls, and a process that loads a GPU driver takes a tenth of a second.
std::uint64_t kills_of(const Device& device) {
  if (const char* const text = std::getenv("WEIR_KILLS")) return std::strtoull(text, nullptr, 10);
  return device.backend() == "host" ? 60 : 12;
}

}  // namespace

std::vector<Memory> one_exportable_each() {
  std::vector<Memory> chosen;
  for (Memory& memory : few_memories()) {
    const auto same = [&](const Memory& one) { return one.device == memory.device; };
    if (memory.exportable && std::ranges::none_of(chosen, same)) chosen.push_back(std::move(memory));
  }
  return chosen;
}

std::ostream& operator<<(std::ostream& out, const Possessions& has) {
  return out << has.files << " files, " << has.mappings << " mappings, " << has.bytes << " bytes in use";
}

Buffer Surviving::make(std::uint32_t index, std::uint32_t round) const {
  Buffer buffer = pool->allocate(kill_bytes, stream);
  write(buffer, kill_pattern(index, round), stream);
  return buffer;
}

void Surviving::check(const Buffer& buffer, const Stream& on, std::uint32_t index, std::uint32_t round) {
  const auto bytes = got([&] { return read(buffer, on); });
  if (!bytes) return;
  EXPECT_BYTES(*bytes, kill_pattern(index, round)) << "number " << index << ", round " << round;
}

Possessions Surviving::possessions() const {
  stream.synchronize();
  pool->trim(0);
  resource->trim(0);
  await_releases();
  const std::size_t files = open_fds();
  return {files, mapped_memfds(), pool->stats().in_use};
}

// A stream that was dropped may be lost later, as long as it has work that waits for theirs.
void Surviving::take_reports_of_the_dead() {
  for (const Reported& report : take_reports()) {
    EXPECT_NE(report.message.find("ended before its work"), std::string::npos) << report.message;
  }
}

void Surviving::make_what_stays() {
  auto sockets = ipc::Channel::make_sockets();
  ipc::Channel mine(std::move(sockets.first)), theirs(std::move(sockets.second));
  const Stream reader(device());
  Gate gate;
  gate.hold(stream);
  mine.send(make(0), stream, {}, kill_limit);
  const ipc::Parcel got = theirs.receive(reader, kill_limit);
  gate.open();
  check(got.buffer, reader, 0);
}

std::uint64_t Surviving::play_once(std::string_view role, const std::string& path,
                                   const std::function<void(Victim&)>& play, std::uint64_t kill_before) {
  Victim victim(role, device(), path, kill_before);
  play(victim);
  const auto calls = victim.end();
  take_reports_of_the_dead();
  return calls;
}

void Surviving::kill_before_each_call(std::string_view role, const std::string& path,
                                      const std::function<void(Victim&)>& play) {
  std::uint64_t calls = 0;
  try {
    calls = play_once(role, path, play, 0);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::operation_not_permitted) throw;
    GTEST_SKIP() << "no process of this machine may trace its child: " << error.what();
  }
  ASSERT_GT(calls, 0U);
  make_what_stays();
  Possessions before = possessions();
  const std::uint64_t kills = std::min(kills_of(device()), calls);
  for (std::uint64_t i = 0; i < kills && !HasFailure(); ++i) {
    const std::uint64_t at = 1 + i * calls / kills;
    SCOPED_TRACE("killed before call " + std::to_string(at) + " of " + std::to_string(calls));
    (void)play_once(role, path, play, at);
    Possessions after;
    (void)comes([&] { return (after = possessions()).within(before); });
    EXPECT_TRUE(after.within(before)) << after << " after " << before << '\n' << describe_fds();
    take_reports_of_the_dead();
    before = after;  // something of an earlier round may have been on its way back
  }
  RecordProperty("injected_failures", static_cast<int>(kills));
}

}  // namespace weir::test
