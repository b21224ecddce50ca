// SPDX-License-Identifier: Apache-2.0
// Region copies and fills by the host. Rows of a few bytes, as of transposed arrays, are moved by single instructions.
#include <algorithm>
#include <cstring>

#include "copy/host_bytes.hpp"
#include "copy/streaming.hpp"

namespace weir::detail {
namespace {

using spi::Region;
using spi::RegionDimension;

constexpr std::size_t tile = 32;  // rows along each side, so that both sides stay in the nearest cache

// Copies of rows of `Bytes`, or of any size where that is 0.
template <std::size_t Bytes>
class Rows {
 public:
  explicit Rows(std::size_t bytes) : bytes_(bytes) {}

  // Where the source's nearest rows are along the outer dimension, the two dimensions are copied in tiles.
  void plane(std::byte* dst, const std::byte* src, const RegionDimension& outer, const RegionDimension& inner) const {
    const bool turned = std::abs(outer.src_step) < std::abs(inner.src_step);
    const std::size_t high = turned ? tile : outer.count, wide = turned ? tile : inner.count;
    for (std::size_t row = 0; row < outer.count; row += high) {
      for (std::size_t column = 0; column < inner.count; column += wide) {
        RegionDimension part = inner;
        part.count = std::min(wide, inner.count - column);
        const std::size_t end = std::min(row + high, outer.count);
        for (std::size_t i = row; i < end; ++i) {
          line(dst + static_cast<std::ptrdiff_t>(i) * outer.dst_step +
                   static_cast<std::ptrdiff_t>(column) * inner.dst_step,
               src + static_cast<std::ptrdiff_t>(i) * outer.src_step +
                   static_cast<std::ptrdiff_t>(column) * inner.src_step,
               part);
        }
      }
    }
  }

  void line(std::byte* dst, const std::byte* src, const RegionDimension& along) const {
    for (std::size_t i = 0; i < along.count; ++i, dst += along.dst_step, src += along.src_step)
      std::memcpy(dst, src, Bytes != 0 ? Bytes : bytes_);
  }

 private:
  std::size_t bytes_;
};

template <std::size_t Bytes>
void copy_rows(std::byte* dst, const std::byte* src, const Region& region) {
  const Rows<Bytes> rows(region.row_bytes);
  const std::span all(region.dimensions);
  if (all.size() == 1) return rows.line(dst, src, all.front());
  const RegionDimension &outer = all[all.size() - 2], &inner = all.back();
  spi::for_each_row(all.first(all.size() - 2),
                    [&](std::ptrdiff_t to, std::ptrdiff_t from) { rows.plane(dst + to, src + from, outer, inner); });
}

void stream_rows(std::byte* dst, const std::byte* src, const Region& region) {
  spi::for_each_row(region.dimensions, [&](std::ptrdiff_t to, std::ptrdiff_t from) {
    stream_bytes(dst + to, src + from, region.row_bytes);
  });
  end_streaming();
}

void copy_rows(std::byte* dst, const std::byte* src, const Region& region) {
  if (is_streamed(region.bytes(), region.row_bytes)) return stream_rows(dst, src, region);
  switch (region.row_bytes) {
    case 1: return copy_rows<1>(dst, src, region);
    case 2: return copy_rows<2>(dst, src, region);
    case 4: return copy_rows<4>(dst, src, region);
    case 8: return copy_rows<8>(dst, src, region);
    case 16: return copy_rows<16>(dst, src, region);
    default: return copy_rows<0>(dst, src, region);
  }
}

}  // namespace

void copy_host(const spi::RegionOp& op) {
  auto &dst = *op.dst.segment, &src = *op.src.segment;
  const Region& region = *op.region;
  if (dst.host_coherent && src.host_coherent)
    return copy_rows(dst.host + op.dst.offset, src.host + op.src.offset, region);
  // Bytes between the rows belong to others, so each row is made visible by itself.
  spi::for_each_row(region.dimensions, [&](std::ptrdiff_t to, std::ptrdiff_t from) {
    copy_host({&dst, op.dst.offset + static_cast<std::size_t>(to)},
              {&src, op.src.offset + static_cast<std::size_t>(from)}, region.row_bytes);
  });
}

void fill_host(spi::Location dst, const Region& region, std::span<const std::byte> block) {
  auto& segment = *dst.segment;
  if (segment.host_coherent && region.row_bytes == block.size() && !region.dimensions.empty())
    return copy_rows(segment.host + dst.offset, block.data(), region);
  spi::for_each_row(region.dimensions, [&](std::ptrdiff_t to, std::ptrdiff_t) {
    const auto offset = dst.offset + static_cast<std::size_t>(to);
    segment.before_host_write(offset, region.row_bytes);
    for (std::size_t done = 0; done < region.row_bytes; done += block.size())
      std::memcpy(segment.host + offset + done, block.data(), std::min(block.size(), region.row_bytes - done));
    segment.after_host_write(offset, region.row_bytes);
  });
}

}  // namespace weir::detail
