// SPDX-License-Identifier: Apache-2.0
// bookkeeping: what the process takes from operator new for 100 000 live buffers of 4 KiB out of a new pool,
// for each of them; the pool itself and its segments' objects included, the Buffer objects of the user not.
// Only weir: what others keep is in their drivers, where nobody can count it.
#include <vector>

#include "counting.hpp"
#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

void measure(benchmark::State& state, const Device& device) {
  constexpr std::size_t count = 100'000;
  const Stream stream(device);
  std::vector<Buffer> buffers;
  buffers.reserve(count);
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto before = bytes_from_new();
    const auto pool = make_pool(device);
    for (std::size_t i = 0; i < count; ++i) buffers.push_back(pool->allocate(4 * kib, stream));
    bytes = bytes_from_new() - before;
    buffers.clear();
  }
  state.counters["per buffer_bytes"] = static_cast<double>(bytes) / static_cast<double>(count);
}

const Suite suite("", [](const Device& device) {
  add_row(
      std::string(device.backend()) + "/bookkeeping/weir",
      [device](benchmark::State& state) { measure(state, device); }, Timed::loop, Rounds::one);
});

}  // namespace
}  // namespace weir::bench
