// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

#include "fds.hpp"
#include "settle.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir::test {

/// Expect that many rounds leave no more open files than one. Files may be closed a while later.
template <class Round>
void expect_rounds_leave_no_files(const Round& round, const Stream& stream, MemoryResource& resource,
                                  std::chrono::milliseconds limit) {
  const auto settle = [&] {
    stream.synchronize();
    resource.trim(0);
    await_releases();
  };
  round();
  settle();
  const std::size_t few = open_fds() + 4;  // the thread of the channels has two files, and lingers
  for (int i = 0; i < 20; ++i) round();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open_fds() > few && std::chrono::steady_clock::now() < deadline) settle();
  EXPECT_LE(open_fds(), few);
}

}  // namespace weir::test
