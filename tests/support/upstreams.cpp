// SPDX-License-Identifier: Apache-2.0
#include "upstreams.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "settle.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/buffer.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

using Figures = std::array<std::size_t, 2>;

/// What is counted at a resource and at each further down. Not what they reserve: other threads may give segments back.
std::vector<Figures> figures(ResourcePtr resource) {
  std::vector<Figures> all;
  for (; resource; resource = resource->upstream()) {
    const ResourceStats stats = resource->stats();
    all.push_back({stats.in_use, stats.live_buffers});
  }
  return all;
}

}  // namespace

void expect_serves_others(const ResourcePtr& below, const Stream& stream) {
  await_releases();
  const auto before = figures(below);
  for (const ResourcePtr& above :
       {ResourcePtr(make_limiting(below, std::size_t{1} << 30)), ResourcePtr(make_pool(below))}) {
    Buffer buffer = above->allocate(1000, stream);
    buffer.fill(std::uint8_t{1}, stream);
    const Buffer part = buffer.slice(10, 20);
    buffer.close();
  }
  stream.synchronize();
  await_releases();
  EXPECT_EQ(figures(below), before) << below->name();
}

}  // namespace weir::test
