// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/thrown_by.hpp"
#include "copy/host_bytes.hpp"
#include "copy/plan.hpp"
#include "copy/staging.hpp"
#include "device/registry.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/spi/sync.hpp"
#include "weir/spi/view.hpp"

namespace weir::detail {
namespace {

using spi::CallOp;
using spi::CopyOp;
using spi::FillOp;
using spi::Location;
using spi::RegionOp;

// Return what streams of `device` name to reach the memory: the segment itself or a view of it, which may be that of
// another device of their backend if this one has none. The first call opens the view. Null when they do not reach the
// memory.
spi::Segment* reached_by(spi::DeviceState& device, spi::Segment& segment) {
  const auto reaches = device.backend->streams->reaches;
  if (reaches(device, segment)) return &segment;
  if (!segment.viewable) return nullptr;
  const bool itself = spi::can_view(device, *segment.device);
  spi::DeviceState* const viewer = itself ? &device : spi::viewer_of(*segment.device, device.backend->name);
  spi::Segment* const view = viewer ? spi::try_view(*viewer, segment) : nullptr;
  return view && reaches(device, *view) ? view : nullptr;
}

CopyEnd seen_from(const Stream& stream, spi::Segment& segment) {
  segment.device->check_process();
  return {reached_by(stream.state().device(), segment) != nullptr, segment.host_accessible()};
}

// Return the device of one end if it reaches both ends, else null.
spi::DeviceState* device_for_both(spi::Segment& dst, spi::Segment& src) {
  if (reached_by(*dst.device, src)) return dst.device;
  return reached_by(*src.device, dst) ? src.device : nullptr;
}

void put_on(const Stream& stream, spi::Op op, std::initializer_list<spi::Block*> users) {
  auto& state = stream.state();
  for (spi::Block* block : users) block->used(state, 0);  // may fail for want of memory, so it comes before any work
  std::uint64_t value = 0;
  const auto refused = thrown_by([&] { value = state.put(std::move(op)); });
  if (refused) value = state.issued();  // the driver may have begun an operation that takes it several calls
  for (spi::Block* block : users) block->used(state, value);
  if (refused) std::rethrow_exception(refused);
}

/// Run `work` on `stream` if `directly`, else on a helper stream of `owner` that is ordered into `stream`. What was put
/// on the helper before `work` threw is in that order, too.
template <class Work>
void on_stream_of(spi::DeviceState& owner, const Stream& stream, bool directly, Work&& work) {
  if (directly) return work(stream);
  Stream helper = take_helper(owner);
  helper.wait(stream.record());
  const auto refused = thrown_by([&] { work(helper); });
  const auto apart = thrown_by([&] { stream.wait(helper.record()); });
  if (apart) (void)thrown_by([&] { helper.synchronize(); });  // the stream does not wait for the work, so the host does
  if (refused || apart) std::rethrow_exception(refused ? refused : apart);
  recycle_helper(std::move(helper));
}

// Return whether nothing is pending on the stream, so that the host may do its part at once.
bool idle(const Stream& stream) {
  auto& state = stream.state();
  state.device().check_process();
  return state.reached(state.position());
}

class Staging {
 public:
  Staging(spi::DeviceState& device, std::size_t bytes, const Stream& stream)
      : stream_(stream), memory_(take_staging(device, bytes)) {}
  ~Staging() {
    try {
      recycle_staging(std::move(memory_), stream_);
    } catch (const std::exception&) {  // the stream is lost; closing the buffer orders its release
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  [[nodiscard]] Place place() const { return {memory_.block(), memory_.location().offset}; }

 private:
  const Stream& stream_;
  Buffer memory_;
};

Location at(const Place& place) { return {&place.segment(), place.offset}; }
// As the stream, which reaches the memory, has to name it.
Location at(const Place& place, const Stream& stream) {
  return {reached_by(stream.state().device(), place.segment()), place.offset};
}

void native_copy(const Place& dst, const Place& src, std::size_t bytes, const Stream& stream) {
  put_on(stream, CopyOp{at(dst, stream), at(src, stream), bytes}, {dst.block, src.block});
}

// The blocks of a copy. Its places are offsets in their segments.
struct Ends {
  spi::Block *dst, *src;
};

RegionOp region_op(const Ends& ends, const PlacedRegion& placed) {
  return {
      {ends.dst->segment, placed.dst}, {ends.src->segment, placed.src}, std::make_shared<spi::Region>(placed.region)};
}

void native_copy(const Ends& ends, const PlacedRegion& placed, const Stream& stream) {
  if (placed.region.dimensions.empty())
    return native_copy(Place{ends.dst, placed.dst}, Place{ends.src, placed.src}, placed.region.row_bytes, stream);
  RegionOp op = region_op(ends, placed);
  op.dst = at({ends.dst, placed.dst}, stream);
  op.src = at({ends.src, placed.src}, stream);
  put_on(stream, std::move(op), {ends.dst, ends.src});
}

void host_copy(const Ends& ends, const PlacedRegion& placed, const Stream& stream) {
  std::function<void()> copy;
  if (placed.region.dimensions.empty()) {
    copy = [to = at({ends.dst, placed.dst}), from = at({ends.src, placed.src}), bytes = placed.region.row_bytes] {
      copy_host(to, from, bytes);
    };
  } else {
    copy = [op = region_op(ends, placed)] { copy_host(op); };
  }
  put_on(stream, CallOp{std::move(copy), true}, {ends.dst, ends.src});
}

// Copy one piece through staging memory. Devices get the rows in the order in which their own memory has them, which
// makes the fewest; the host brings them into the other order.
void staged_piece(const CopyPlan& plan, Ends ends, PlacedRegion piece, const Stream& stream) {
  std::optional<Staging> read, write;
  auto& here = stream.state().device();  // what reaches an end by a view does not reach that device's staging memory
  auto& source = plan.read_on_stream ? here : *ends.src->segment->device;
  auto& target = plan.write_on_stream ? here : *ends.dst->segment->device;
  if (!ends.src->segment->host_accessible()) {
    Detour by = packed_as_source(piece);
    const Place between = read.emplace(source, by.bytes, stream).place();
    by.in.dst += between.offset;
    by.out.src += between.offset;
    on_stream_of(source, stream, plan.read_on_stream, [&](const Stream& s) {
      native_copy({between.block, ends.src}, by.in, s);
    });
    ends.src = between.block;
    piece = std::move(by.out);
  }
  if (ends.dst->segment->host_accessible()) return host_copy(ends, piece, stream);
  Detour by = packed_as_destination(piece);
  const Place between = write.emplace(target, by.bytes, stream).place();
  by.in.dst += between.offset;
  by.out.src += between.offset;
  host_copy({between.block, ends.src}, by.in, stream);
  on_stream_of(target, stream, plan.write_on_stream, [&](const Stream& s) {
    native_copy({ends.dst, between.block}, by.out, s);
  });
}

template <class Piece>
void in_pieces(std::size_t bytes, std::size_t most, Piece&& piece) {
  for (std::size_t done = 0; done < bytes; done += most) piece(done, std::min(most, bytes - done));
}

// Return whether a copy of these bytes to `place` writes over some of them.
bool lie_in(std::span<const std::byte> bytes, const Location& place) {
  if (!place.segment->host) return false;
  const std::byte* const begin = place.segment->host + place.offset;
  const std::less<> before;
  return before(begin, bytes.data() + bytes.size()) && before(bytes.data(), begin + bytes.size());
}

Place plus(const Place& place, std::size_t bytes) { return {place.block, place.offset + bytes}; }

constexpr std::size_t most_repeated = 64 << 10;  // bytes of a pattern that the host repeats
constexpr std::size_t few_rows = 8;              // of which each is filled by itself

// Return the pattern repeated over at most `bytes`, a multiple of its size.
std::vector<std::byte> repeated(std::span<const std::byte> pattern, std::size_t bytes) {
  const auto times = std::max<std::size_t>(std::min(bytes, most_repeated) / pattern.size(), 1);
  std::vector<std::byte> block(times * pattern.size());
  std::ranges::copy(pattern, block.begin());
  for (std::size_t done = pattern.size(); done < block.size(); done *= 2)
    std::memcpy(block.data() + done, block.data(), std::min(done, block.size() - done));
  return block;
}

// Return whether a backend's fills know patterns of this size.
bool is_native(std::size_t pattern_bytes) {
  return pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4 || pattern_bytes == 8;
}

// Larger patterns than backends know come from the host, and are doubled by a stream that reaches the memory.
void fill_range(const Place& dst, std::size_t bytes, std::span<const std::byte> pattern, const Stream& stream) {
  if (is_native(pattern.size())) {
    std::uint64_t value = 0;
    std::memcpy(&value, pattern.data(), pattern.size());
    return fill(dst, bytes, value, static_cast<std::uint32_t>(pattern.size()), stream);
  }
  const auto block = repeated(pattern, bytes);
  transfer_in(dst, block, stream);
  for (std::size_t done = block.size(); done < bytes; done *= 2)
    native_copy(plus(dst, done), dst, std::min(done, bytes - done), stream);
}

// For a stream that reaches the memory. One row is filled and copied to twice as many others at a time (ADR 0016).
void fill_rows(spi::Block& dst, const PlacedRegion& placed, std::span<const std::byte> pattern, const Stream& stream) {
  const spi::Region& region = placed.region;
  const Place first{&dst, placed.dst};
  if (is_native(pattern.size()) && region.rows() <= few_rows) {
    return spi::for_each_row(region.dimensions, [&](std::ptrdiff_t to, std::ptrdiff_t) {
      fill_range(plus(first, static_cast<std::size_t>(to)), region.row_bytes, pattern, stream);
    });
  }
  fill_range(first, region.row_bytes, pattern, stream);
  spread_first_row(placed, [&](const PlacedRegion& part) { native_copy({&dst, &dst}, part, stream); });
}

// Return whether a host function is to fill the rows: of memory that no device of the stream reaches, and of memory
// that may be write-combined, because it never reads them. A host stream does small fills of its own memory at once.
bool is_for_the_host(const CopyEnd& end, const spi::Segment& segment, std::size_t bytes, const Stream& stream) {
  constexpr std::size_t stays_in_cache = 256 << 10;
  if (!end.host || !end.reached) return end.host;
  const bool by_host_stream = &stream.state().device() == &host_state();
  return by_host_stream && (segment.device != &host_state() || bytes > stays_in_cache);
}

}  // namespace

void transfer(spi::Block& dst, spi::Block& src, const PlacedRegion& placed, const Stream& stream) {
  const Ends ends{&dst, &src};
  const auto source = seen_from(stream, *src.segment), target = seen_from(stream, *dst.segment);
  const bool direct = source.reached && target.reached, by_host = source.host && target.host;
  // Rows of a few bytes cost a device more than the way through the host does.
  constexpr std::size_t short_row = 64;
  const bool short_rows = !placed.region.dimensions.empty() && placed.region.row_bytes < short_row;
  auto* const both = direct || by_host || short_rows ? nullptr : device_for_both(*dst.segment, *src.segment);
  const auto plan = plan_copy(source, target, both != nullptr);
  if (plan.path == CopyPath::direct) return native_copy(ends, placed, stream);
  if (plan.path == CopyPath::elsewhere)
    return on_stream_of(*both, stream, false, [&](const Stream& s) { native_copy(ends, placed, s); });
  if (plan.path == CopyPath::host) return host_copy(ends, placed, stream);
  in_pieces(placed, staging_piece, [&](const PlacedRegion& piece) { staged_piece(plan, ends, piece, stream); });
}

void transfer(const Place& dst, const Place& src, std::size_t bytes, const Stream& stream) {
  transfer(*dst.block, *src.block, {dst.offset, src.offset, {bytes, {}}}, stream);
}

void transfer_in(const Place& dst, std::span<const std::byte> src, const Stream& stream) {
  if (dst.segment().host_accessible() && idle(stream)) {
    return copy_host(at(dst), src);
  }
  const auto end = seen_from(stream, dst.segment());
  auto& owner = end.reached ? stream.state().device() : *dst.segment().device;
  // The stream may write a piece before the next one is read, so bytes that the copy writes over are read at once.
  in_pieces(src.size(), lie_in(src, at(dst)) ? src.size() : staging_piece, [&](std::size_t done, std::size_t size) {
    const Staging staging(owner, size, stream);
    const Place from = staging.place();
    copy_host(at(from), src.subspan(done, size));
    on_stream_of(owner, stream, end.reached, [&](const Stream& s) { native_copy(plus(dst, done), from, size, s); });
  });
}

namespace {

/// The pieces of a copy into memory of the caller, who may end that memory when the call fails half way.
class Pieces {
 public:
  /// Move a piece, unless the copy was cancelled.
  void move(std::span<std::byte> to, const Location& from) {
    ++moving_;
    const auto refused = thrown_by([&] {
      if (!cancelled_) copy_host(to, from);
    });
    --moving_;
    if (refused) std::rethrow_exception(refused);
  }
  /// Return once no piece is being moved. None will be.
  void cancel() noexcept {
    cancelled_ = true;
    for (unsigned round = 0; moving_ != 0; ++round) sync::pause(round);
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::atomic<int> moving_{0};
};

}  // namespace

void transfer_out(std::span<std::byte> dst, const Place& src, const Stream& stream) {
  if (src.segment().host_accessible()) {
    if (idle(stream)) return copy_host(dst, at(src));
    return put_on(stream, CallOp{[dst, from = at(src)] { copy_host(dst, from); }, true}, {src.block});
  }
  const auto end = seen_from(stream, src.segment());
  auto& owner = end.reached ? stream.state().device() : *src.segment().device;
  const auto pieces = dst.size() > staging_piece ? std::make_shared<Pieces>() : nullptr;
  const auto refused = thrown_by([&] {
    in_pieces(dst.size(), staging_piece, [&](std::size_t done, std::size_t size) {
      const Staging staging(owner, size, stream);
      const Place to = staging.place();
      on_stream_of(owner, stream, end.reached, [&](const Stream& s) { native_copy(to, plus(src, done), size, s); });
      const auto move = [pieces, to = dst.subspan(done, size), from = at(to)] {
        pieces ? pieces->move(to, from) : copy_host(to, from);
      };
      put_on(stream, CallOp{move, true}, {to.block});
    });
  });
  if (!refused) return;
  if (pieces) pieces->cancel();
  std::rethrow_exception(refused);
}

void prefetch(const Place& place, std::size_t bytes, spi::DeviceState& to, const Stream& stream) {
  auto& owner = *place.segment().device;
  const bool directly = stream.state().device().backend == owner.backend;
  on_stream_of(owner, stream, directly, [&](const Stream& s) {
    put_on(s, spi::PrefetchOp{at(place), bytes, &to}, {place.block});
  });
}

void fill(const Place& dst, std::size_t bytes, std::uint64_t pattern, std::uint32_t pattern_bytes,
          const Stream& stream) {
  const auto end = seen_from(stream, dst.segment());
  const auto native = [&](const Stream& s) {
    put_on(s, FillOp{at(dst, s), bytes, pattern, pattern_bytes}, {dst.block});
  };
  if (end.reached) return native(stream);
  if (!end.host) return on_stream_of(*dst.segment().device, stream, false, native);
  put_on(stream, CallOp{[=, to = at(dst)] { fill_host(to, bytes, pattern, pattern_bytes); }, true}, {dst.block});
}

void fill(spi::Block& dst, const PlacedRegion& placed, std::span<const std::byte> pattern, const Stream& stream) {
  const spi::Region& region = placed.region;
  if (region.dimensions.empty() && is_native(pattern.size()))
    return fill_range({&dst, placed.dst}, region.row_bytes, pattern, stream);
  const auto end = seen_from(stream, *dst.segment);
  if (!is_for_the_host(end, *dst.segment, region.bytes(), stream)) {
    return on_stream_of(*dst.segment->device, stream, end.reached,
                        [&](const Stream& s) { fill_rows(dst, placed, pattern, s); });
  }
  const auto rows = std::make_shared<spi::Region>(region);
  for (spi::RegionDimension& dimension : rows->dimensions) dimension.src_step = 0;
  std::function<void()> work = [to = at({&dst, placed.dst}), rows, block = repeated(pattern, region.row_bytes)] {
    fill_host(to, *rows, block);
  };
  put_on(stream, CallOp{std::move(work), true}, {&dst});
}

}  // namespace weir::detail
