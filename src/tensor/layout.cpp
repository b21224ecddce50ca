// SPDX-License-Identifier: Apache-2.0
#include "weir/layout.hpp"

#include <algorithm>
#include <limits>

#include "base/refuse.hpp"

namespace weir {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) detail::refuse("Layout", std::string(what) + " overflows 64 bits");
  return product;
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) detail::refuse("Layout", "the extent overflows 64 bits");
  return sum;
}

void check_extents(const std::vector<std::int64_t>& shape) {
  for (const auto extent : shape) {
    if (extent < 0) detail::refuse("Layout", "extent " + std::to_string(extent) + " is negative");
  }
}

}  // namespace

std::string DType::to_string() const {
  static constexpr const char* names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  constexpr std::size_t first_small = std::size(names);
  static constexpr struct {
    std::uint8_t bits;
    const char* name;
  } small_floats[] = {{8, "float8_e3m4"},     {8, "float8_e4m3"},   {8, "float8_e4m3b11fnuz"}, {8, "float8_e4m3fn"},
                      {8, "float8_e4m3fnuz"}, {8, "float8_e5m2"},   {8, "float8_e5m2fnuz"},    {8, "float8_e8m0fnu"},
                      {6, "float6_e2m3fn"},   {6, "float6_e3m2fn"}, {4, "float4_e2m1fn"}};
  if (*this == bool8) return names[code];
  std::string text;
  if (code < first_small)
    text = names[code] + std::to_string(bits);
  else if (code - first_small < std::size(small_floats) && small_floats[code - first_small].bits == bits)
    text = small_floats[code - first_small].name;
  else
    text = "code" + std::to_string(code) + "_" + std::to_string(bits);
  if (lanes != 1) text += "x" + std::to_string(lanes);
  return text;
}

Layout Layout::compact(DType dtype, std::vector<std::int64_t> shape, std::size_t byte_offset) {
  check_extents(shape);
  Layout layout{dtype, std::move(shape), {}, byte_offset};
  layout.strides.resize(layout.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    layout.strides[i] = stride;
    stride = times(stride, std::max<std::int64_t>(layout.shape[i], 1), "the number of elements");
  }
  return layout;
}

std::int64_t Layout::elements() const {
  std::int64_t count = 1;
  for (const auto extent : shape) {
    if (extent == 0) return 0;
  }
  for (const auto extent : shape) count = times(count, extent, "the number of elements");
  return count;
}

bool Layout::is_compact() const noexcept {
  if (strides.size() != shape.size()) return false;
  if (std::ranges::find(shape, 0) != shape.end()) return true;  // no strides are taken
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0 || (shape[i] != 1 && strides[i] != stride)) return false;
    if (__builtin_mul_overflow(stride, shape[i], &stride)) return false;
  }
  return true;
}

std::size_t Layout::bytes_needed() const {
  check_extents(shape);
  if (strides.size() != shape.size()) {
    detail::refuse("Layout",
                   std::to_string(strides.size()) + " strides for " + std::to_string(shape.size()) + " dimensions");
  }
  if (dtype.bits == 0 || dtype.lanes == 0 || (std::size_t{dtype.bits} * dtype.lanes) % 8 != 0) {
    detail::refuse("Layout", "elements of type " + dtype.to_string() +
           " are not whole bytes, which offsets and strides count; let an element have several lanes that fill bytes");
  }
  if (elements() == 0) return 0;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto reach = times(shape[i] - 1, strides[i], "the extent");
    (reach < 0 ? lowest : highest) = plus(reach < 0 ? lowest : highest, reach);
  }
  const auto item = static_cast<std::int64_t>(dtype.bytes());
  if (byte_offset > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()))
    detail::refuse("Layout", "byte offset overflows");
  const auto begin = plus(static_cast<std::int64_t>(byte_offset), times(lowest, item, "the extent"));
  if (begin < 0) {
    const auto below = -static_cast<std::uint64_t>(begin);
    detail::refuse("Layout", "elements lie " + std::to_string(below) + " bytes before the beginning of the buffer");
  }
  const auto end = plus(static_cast<std::int64_t>(byte_offset), times(plus(highest, 1), item, "the extent"));
  return static_cast<std::size_t>(end);
}

}  // namespace weir
