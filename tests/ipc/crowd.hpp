// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the tests of many borrowers and those borrowers agree on.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "bytes.hpp"
#include "fds.hpp"

namespace weir::test {

/// The bytes of a buffer of the crowd.
inline Bytes crowd_bytes(std::size_t number) { return pattern(512, static_cast<std::uint32_t>(number)); }

/// What a process has of the memory that processes share.
struct Holdings {
  std::size_t files = 0;  ///< open, of any sort
  std::size_t maps = 0;   ///< mapped files in memory
  friend bool operator==(const Holdings&, const Holdings&) = default;
};

inline Holdings holdings() { return {open_fds(), mapped_memfds()}; }

/// Return the holdings once they are as before, or what they are after a while. Threads close files a moment later.
inline Holdings settled(const Holdings& before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  for (;;) {
    const Holdings now = holdings();
    if (now == before || std::chrono::steady_clock::now() > deadline) return now;
    std::this_thread::yield();
  }
}

inline std::string difference(const Holdings& before, const Holdings& after) {
  if (before == after) return "nothing left";
  const auto from_to = [](const char* what, std::size_t from, std::size_t to) {
    return std::string(what) + ' ' + std::to_string(from) + " -> " + std::to_string(to) + "; ";
  };
  return from_to("files", before.files, after.files) + from_to("maps", before.maps, after.maps);
}

}  // namespace weir::test
