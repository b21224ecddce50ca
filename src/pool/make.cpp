// SPDX-License-Identifier: Apache-2.0
// How a pool is made, and which options are refused.
#include <algorithm>
#include <string>
#include <utility>

#include "base/alignment.hpp"
#include "base/refuse.hpp"
#include "memory/handle.hpp"
#include "pool/pool_resource.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"

namespace weir {
namespace pool {

PoolPtr PoolResource::make(ResourcePtr upstream, const PoolOptions& options) {
  (void)sync::has_heavy_barrier();  // ask the kernel now, not in the first allocation
  const auto pool = detail::first_handle(new PoolResource(std::move(upstream), options));
  PoolResource& made = *pool;
  if (options.paged) made.reserve_addresses();
  if (!made.pages_) made.arena_.largest_small = made.segment_bytes_ / granule;
  if (options.initial_bytes == 0) return pool;
  Shortage shortage;
  if (options.initial_bytes <= most_bytes) {
    const auto granules = granules_for(options.initial_bytes);
    const auto bytes = static_cast<std::size_t>(granules) * granule;
    Lock lock(made.mutex_);
    if (made.pages_ ? made.add_first_pages(granules, lock, shortage)
                    : made.add_region(nullptr, false, bytes, bytes, lock, shortage)) {
      return pool;
    }
  } else {
    shortage.limit = most_bytes;
  }
  shortage.requested = options.initial_bytes;
  shortage.resource = made.name();
  if (shortage.device.empty()) shortage.device = made.device().state().describe();
  throw OutOfMemory(std::move(shortage));
}

// Reserve several times as many bytes of addresses as the device has memory, because idle addresses are not always
// where they are needed.
void PoolResource::reserve_addresses() {
  constexpr std::size_t times = 4, least = std::size_t{64} << 30;
  const auto bytes = std::clamp(times * device().total_memory(), least, most_bytes / 2);
  spi::Block* const block = reserve_addresses_from(*upstream_, bytes, home_);
  if (!block) return;
  if (block->segment->paged()->page_bytes % alignment_ != 0) return deallocate_to(*upstream_, *block);
  try {
    arena_.add_addresses(*this, *block);
  } catch (...) {
    deallocate_to(*upstream_, *block);
    throw;
  }
  pages_.emplace(*block->segment->paged());
}

}  // namespace pool

namespace {

void check(const PoolOptions& options) {
  constexpr std::size_t largest_alignment = std::size_t{2} << 20;
  if (options.segment_bytes == 0) detail::refuse("make_pool", "segments of no bytes");
  if (options.segment_bytes > pool::most_bytes) {
    detail::refuse("make_pool", "segments of " + std::to_string(options.segment_bytes) + " bytes; the most is " +
           std::to_string(pool::most_bytes));
  }
  if (!(options.growth >= 0 && options.growth <= 1)) {
    detail::refuse("make_pool", "growth by " + std::to_string(options.growth) + " of what there is; it is from 0 to 1");
  }
  if (options.patience < std::chrono::nanoseconds{0}) {
    detail::refuse("make_pool", "patience of " + std::to_string(options.patience.count()) + " ns; 0 is none");
  }
  if (!detail::can_align(options.alignment, largest_alignment)) {
    detail::refuse_alignment("make_pool", options.alignment, largest_alignment);
  }
}

}  // namespace

PoolPtr make_pool(ResourcePtr upstream, const PoolOptions& options) {
  if (!upstream) detail::refuse("make_pool", "there is no upstream");
  check(options);
  if (options.exportable && !upstream->is_exportable()) {
    throw Error(Errc::unsupported, "make_pool: an exportable pool over " + upstream->name() +
                                       ", whose memory is not; make that with exportable = true");
  }
  return pool::PoolResource::make(std::move(upstream), options);
}

PoolPtr make_pool(const Device& device, const PoolOptions& options) {
  const auto kinds = device.kinds();
  const auto first = [&](auto can) {
    const KindInfo* const usual = device.find(device.default_kind());
    if (can(*usual)) return usual->kind;
    const auto found = std::ranges::find_if(kinds, can);
    return found != kinds.end() ? found->kind : usual->kind;
  };
  if (options.exportable) {
    const auto kind = first([](const KindInfo& info) { return info.exportable; });
    return make_pool(make_resource(device, kind, {.exportable = true}), options);
  }
  const auto pages = [&](const KindInfo& info) { return options.paged && info.paged; };
  return make_pool(make_resource(device, first(pages)), options);
}

}  // namespace weir
