// SPDX-License-Identifier: Apache-2.0
#pragma once
// Base of the suites about pools: over each plain memory, and once more without paging where it can be paged.

#include <algorithm>
#include <vector>

#include "fixture.hpp"
#include "weir/pool.hpp"

namespace weir::test {

/// Nothing over the plain resource: only the name of a memory whose pools are not paged.
inline constexpr Stack unpaged{"unpaged", 0, true, [](ResourcePtr plain) { return plain; },
                               [](const Memory& memory) { return memory.info.paged; }};

inline std::vector<Memory> memories_for_pools() {
  std::vector<Memory> chosen;
  for (const Memory& memory : memories()) {
    if (memory.stack || memory.exportable) continue;
    chosen.push_back(memory);
    if (!unpaged.stands_on(memory)) continue;
    chosen.push_back(memory);
    chosen.back().stack = &unpaged;
  }
  return chosen;
}

class Pools : public OnMemory {
 protected:
  [[nodiscard]] bool paged() const { return info().paged && !GetParam().stack; }
  [[nodiscard]] PoolPtr make(PoolOptions options) const {
    options.paged = paged();
    return make_pool(resource, options);
  }
  [[nodiscard]] PoolPtr make() const { return make({.segment_bytes = page}); }
  /// A buffer with all of the one segment that a pool of this limit can have.
  [[nodiscard]] PoolOptions tight(ReusePolicy reuse) const {
    return {.initial_bytes = page, .limit = page, .segment_bytes = page, .reuse = reuse, .patience = {}};
  }
  /// A copy in ordinary memory, made when `on` gets there, also after the test has failed.
  [[nodiscard]] Buffer snapshot(const Buffer& of, const Stream& on) const {
    Buffer copy = ordinary->allocate(of.size(), on);
    copy.copy_from(of, on);
    return copy;
  }
  static std::span<const std::byte> bytes_of(const Buffer& snapshot) {
    return {snapshot.host_data(), snapshot.size()};
  }

  Stream other{device()};
  const ResourcePtr ordinary = make_resource(host_device());
  const std::size_t page = std::max(std::size_t{1} << 20, device().find(resource->kind())->granularity);
};

}  // namespace weir::test

#define WEIR_FOR_EACH_POOL(suite) \
  WEIR_FOR_EACH(suite, ::weir::test::memories_for_pools(), ::weir::test::MemoryName)
