// SPDX-License-Identifier: Apache-2.0
#pragma once
// Paged pools whose memory other processes may open, with pages as small as the device has them.

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "bytes.hpp"
#include "fixture.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/pool.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/segment.hpp"

namespace weir::test {

[[nodiscard]] inline std::vector<Memory> paged_exportable() {
  auto all = few_memories();
  std::erase_if(all, [](const Memory& memory) { return !memory.exportable || !memory.info.paged; });
  return all;
}

class LentPages : public OnMemory {
 protected:
  static inline const std::chrono::seconds limit = answer_limit();

  const std::size_t page = device().find(resource->kind())->granularity;
  const PoolPtr pool = make_pool(resource, {.segment_bytes = page, .exportable = true});

  /// Return a buffer that lies in so many pages, because each of them was made for another buffer.
  [[nodiscard]] Buffer in_pages(std::size_t count, std::size_t less = 0) {
    {
      std::vector<Buffer> each;
      for (std::size_t i = 0; i < count; ++i) each.push_back(pool->allocate(page, stream));
    }
    Buffer made = pool->allocate(count * page - less, stream);
    EXPECT_EQ(pages_of(made), count);
    return made;
  }
  void put(const Buffer& buffer, const Bytes& bytes) const {
    Buffer shared = buffer.share();
    write(shared, bytes, stream);
  }
  static std::size_t pages_of(const Buffer& buffer) {
    const auto place = buffer.location();
    return place.segment->paged()->hold(place.offset, buffer.size()).pages.size();
  }
  /// Return the buffer of a parcel that comes from the channel on a stream of its own.
  static Buffer receive(ipc::Channel& from, const Stream& on) { return from.receive(on, limit).buffer; }
  static bool all_comes_back(const ipc::Channel& channel) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (channel.stats().lent != 0) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

}  // namespace weir::test
