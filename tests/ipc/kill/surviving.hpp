// SPDX-License-Identifier: Apache-2.0
#pragma once
// Base of the suites about peers that are killed right before each of their system calls.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "fixture.hpp"
#include "victim.hpp"
#include "weir/channel.hpp"
#include "weir/pool.hpp"

namespace weir::test {

/// The plain exportable memories, one of each device.
std::vector<Memory> one_exportable_each();

/// What this process has that a peer's end must give back.
struct Possessions {
  std::size_t files = 0;
  std::size_t mappings = 0;  ///< of files of memory
  std::size_t bytes = 0;     ///< of the suite's pool, in use
  [[nodiscard]] bool within(const Possessions& other) const {
    return files <= other.files && mappings <= other.mappings && bytes <= other.bytes;
  }
};
std::ostream& operator<<(std::ostream& out, const Possessions& has);

/// The tests play one side of a scenario, and kill_child plays the other one.
class Surviving : public OnMemory {
 protected:
  /// Play the scenario once to its end, and once for each system call that the victim makes in it, or for as many of
  /// them as WEIR_KILLS allows. `play` gets the victim, lets it go, and returns when it expects nothing more of it.
  /// Each time, this process must come to have what it had before.
  void kill_before_each_call(std::string_view role, const std::string& path, const std::function<void(Victim&)>& play);

  /// Whether the call did what it is for. It may fail because the peer is dead, and for no other reason.
  template <class Call>
  static bool done(const Call& call) {
    try {
      call();
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::peer_gone) << error.what();
      return false;
    }
  }
  /// What is read when the peer lives; nothing when it is dead.
  template <class Call>
  static auto got(const Call& call) -> std::optional<decltype(call())> {
    std::optional<decltype(call())> result;
    (void)done([&] { result.emplace(call()); });
    return result;
  }
  /// A buffer of the pool with bytes of the scenario.
  [[nodiscard]] Buffer make(std::uint32_t index, std::uint32_t round = 0) const;
  /// Check that the buffer has the bytes, or that `on`, which waits for them, says that their writer is dead.
  static void check(const Buffer& buffer, const Stream& on, std::uint32_t index, std::uint32_t round = 0);
  void check(const Buffer& buffer, std::uint32_t index, std::uint32_t round = 0) const {
    check(buffer, stream, index, round);
  }
  /// Wait for what is given back by itself.
  template <class Condition>
  static bool comes(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kill_limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  const PoolPtr pool = make_pool(resource, {.exportable = true});

 private:
  [[nodiscard]] Possessions possessions() const;
  static void take_reports_of_the_dead();
  /// Let a peer wait for the device. The page that peers see stays once a device has written it, and whether a scenario
  /// lets a device write it depends on how fast the device is.
  void make_what_stays();
  std::uint64_t play_once(std::string_view role, const std::string& path, const std::function<void(Victim&)>& play,
                          std::uint64_t kill_before);

  // The thread of the channels has files of its own while there is a channel.
  std::pair<spi::UniqueFd, spi::UniqueFd> sockets_ = ipc::Channel::make_sockets();
  ipc::Channel idle_{std::move(sockets_.first)};
};

}  // namespace weir::test
