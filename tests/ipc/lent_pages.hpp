// SPDX-License-Identifier: Apache-2.0
#pragma once
// Paged pools whose memory other processes may open, with pages as small as the device has them.

#include <chrono>
#include <cstddef>
#include <vector>

#include "bytes.hpp"
#include "fixture.hpp"
#include "loans.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/pool.hpp"

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
  const PoolPtr pool = make_pool(resource, {.segment_bytes = page, .growth = 0, .exportable = true});

  /// Return a buffer that lies in so many pages, because each of them was made for another buffer.
  [[nodiscard]] Buffer in_pages(std::size_t count, std::size_t less = 0) {
    {
      std::vector<Buffer> each;
      for (std::size_t i = 0; i < count; ++i) each.push_back(pool->allocate(page, stream));
    }
    Buffer made = pool->allocate(count * page - less, stream);
    EXPECT_EQ(count_pages(made), count);
    return made;
  }
  void put(const Buffer& buffer, const Bytes& bytes) const {
    Buffer shared = buffer.share();
    write(shared, bytes, stream);
  }
  /// Return the buffer of a parcel that comes from the channel on a stream of its own.
  static Buffer receive(ipc::Channel& from, const Stream& on) { return from.receive(on, limit).buffer; }
};

}  // namespace weir::test
