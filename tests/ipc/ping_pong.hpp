// SPDX-License-Identifier: Apache-2.0
#pragma once
// One of two players, in two processes, between which a buffer goes to and fro. The player whose turn it is expects the
// bytes of this round, and makes those of the next round out of what it finds: what was wrong once stays wrong. All of
// that happens in stream order. The host only puts it there, and does not know whether the other player is done.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "weir/buffer.hpp"
#include "weir/device.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir::test {

class PingPongPlayer {
 public:
  static constexpr std::size_t bytes = 4096;

  PingPongPlayer(const Stream& stream, std::uint64_t seed)
      : stream_(stream), seed_(seed), seen_(make_resource(host_device())->allocate(bytes, stream)) {}
  PingPongPlayer(const PingPongPlayer&) = delete;
  PingPongPlayer& operator=(const PingPongPlayer&) = delete;
  ~PingPongPlayer() { (void)stream_.record().wait(std::chrono::nanoseconds{-1}); }

  /// What the buffer holds before a round. Depends on the round, the seed and the place.
  [[nodiscard]] static Bytes before(std::uint64_t round, std::uint64_t seed) {
    Bytes all(bytes);
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint64_t word = value(round, seed, i);
      std::memcpy(all.data() + 8 * i, &word, 8);
    }
    return all;
  }
  /// Enqueue a turn: read what `before` says, and turn it into what the next round begins with.
  void take_turn(Buffer& buffer, std::uint64_t round) {
    seen_.copy_from(buffer, stream_);
    stream_.call([this, round] { look(round); });
    buffer.copy_from(seen_, stream_);
  }
  /// What was wrong first; empty when nothing was. The stream must have passed the last turn.
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  static constexpr std::size_t words = bytes / 8;

  // splitmix64 over all three.
  static std::uint64_t value(std::uint64_t round, std::uint64_t seed, std::size_t place) {
    std::uint64_t mixed = (seed << 40U) + (round << 16U) + place + 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }

  // The rounds whose bytes may be there instead.
  [[nodiscard]] std::string origin(std::uint64_t found, std::uint64_t round, std::size_t place) const {
    for (std::uint64_t other = round > 200 ? round - 200 : 0; other < round + 200; ++other) {
      if (value(other, seed_, place) == found) return "those of round " + std::to_string(other);
    }
    return "those of no round";
  }

  void look(std::uint64_t round) {
    std::byte* const all = seen_.host_data();
    for (std::size_t i = 0; i < words; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, all + 8 * i, 8);
      const std::uint64_t expected = value(round, seed_, i);
      if (word != expected && wrong_.empty()) {
        wrong_ = "the bytes of round " + std::to_string(round) + " are wrong from byte " + std::to_string(8 * i) +
                 " on: there are " + origin(word, round, i);
      }
      word ^= expected ^ value(round + 1, seed_, i);
      std::memcpy(all + 8 * i, &word, 8);
    }
  }

  Stream stream_;
  std::uint64_t seed_;
  Buffer seen_;  // for the host functions, which cannot reach all memory
  std::string wrong_;
};

}  // namespace weir::test
