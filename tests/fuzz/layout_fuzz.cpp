// SPDX-License-Identifier: Apache-2.0
// Layouts of any shape, strides and element type over a buffer, against sums in 128 bits.

#include <optional>

#include "input.hpp"
#include "target.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/tensor.hpp"

namespace weir::fuzz {
namespace {

using Wide = __int128;
constexpr Wide most = INT64_MAX;

/// What `function` returns; nothing when it refused with invalid_argument.
template <class Function>
auto unless_refused(Function function) -> std::optional<decltype(function())> {
  try {
    return function();
  } catch (const Error& error) {
    require(error.code() == Errc::invalid_argument, error.what());
    return std::nullopt;
  }
}

/// The product of the extents; 2^63 when it is more than that, -1 when one is negative.
Wide count_of(const std::vector<std::int64_t>& shape) {
  if (std::any_of(shape.begin(), shape.end(), [](auto extent) { return extent < 0; })) return -1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  Wide count = 1;
  for (const auto extent : shape) count = std::min(count * extent, most + 1);
  return count;
}

/// Distance from the first byte to the last element's end; nothing when there is no such number below 2^63.
std::optional<Wide> reach_of(const Layout& layout) {
  Wide low = 0, high = 0;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    const Wide reach = Wide{layout.shape[i] - 1} * layout.strides[i];
    if (reach > most || reach < -most - 1) return std::nullopt;
    (reach < 0 ? low : high) += reach;
  }
  const Wide item = layout.dtype.bytes();
  if (low < -most || high > most || layout.byte_offset > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  if (Wide{static_cast<std::int64_t>(layout.byte_offset)} + low * item < 0) return std::nullopt;
  const Wide end = Wide{static_cast<std::int64_t>(layout.byte_offset)} + (high + 1) * item;
  return end > most ? std::nullopt : std::optional<Wide>(end);
}

void check_needs(const Layout& layout) {
  const auto needed = unless_refused([&] { return layout.bytes_needed(); });
  const Wide count = layout.strides.size() == layout.shape.size() ? count_of(layout.shape) : -1;
  const bool whole = layout.dtype.bits != 0 && layout.dtype.lanes != 0 && layout.dtype.bits * layout.dtype.lanes % 8 == 0;
  if (count < 0 || !whole) return require(!needed, "an impossible layout was accepted");
  if (count == 0) return require(needed == 0, "no elements need no bytes");
  const auto reach = reach_of(layout);
  if (!reach) return require(!needed, "a layout that leaves 63 bits was accepted");
  if (needed) require(Wide{static_cast<std::int64_t>(*needed)} == *reach, "bytes_needed is wrong");
  if (count <= most) require(needed.has_value(), "a possible layout was refused");
}

void check_compact(const Layout& asked) {
  const auto made = unless_refused([&] { return Layout::compact(asked.dtype, asked.shape, asked.byte_offset); });
  if (!made) return;
  require(made->is_compact(), "Layout::compact is not compact");
  require(Wide{made->elements()} == count_of(asked.shape), "elements() is wrong");
  check_needs(*made);
}

// Strides of one index are taken by nothing. A padded array may need more than 63 bits where its corner does not.
void check_padded(const Layout& asked) {
  const auto found = unless_refused([&] { return asked.padded_shape(); });
  if (!found || !*found) return;
  const auto made =
      unless_refused([&] { return Layout::padded(asked.dtype, asked.shape, found->value(), asked.byte_offset); });
  if (!made || made->elements() == 0) return;
  for (std::size_t i = 0; i < asked.shape.size(); ++i)
    require(asked.shape[i] == 1 || made->strides[i] == asked.strides[i], "padded_shape is wrong");
}

void run_layout(std::span<const std::byte> bytes) {
  static const Stream stream(host_device());
  static const Buffer buffer = host::make_pageable_resource()->allocate(4096, stream);
  Input input(bytes);
  Layout layout;
  layout.dtype.code = input.take<std::uint8_t>();
  layout.dtype.bits = input.take<std::uint8_t>();
  layout.dtype.lanes = input.take<std::uint16_t>();
  layout.byte_offset = static_cast<std::size_t>(input.number());
  layout.shape.resize(input.below(9));
  layout.strides.resize(input.below(4) == 3 ? input.below(9) : layout.shape.size());
  for (auto& extent : layout.shape) extent = input.number();
  for (auto& stride : layout.strides) stride = input.number();

  require(!layout.dtype.to_string().empty(), "a type without a name");
  const auto count = unless_refused([&] { return layout.elements(); });
  if (count && count_of(layout.shape) >= 0) require(Wide{*count} == count_of(layout.shape), "elements() is wrong");
  if (layout.is_compact()) require(layout.strides.size() == layout.shape.size(), "compact without strides");
  check_needs(layout);
  check_compact(layout);
  check_padded(layout);
  const auto tensor = unless_refused([&] { return Tensor(buffer.share(), layout); });
  if (tensor) require(layout.bytes_needed() <= buffer.size(), "the tensor leaves its buffer");
  if (tensor) require(layout.byte_offset <= buffer.size(), "the tensor begins outside of its buffer");
  if (tensor) {
    (void)unless_refused([&] {
      tensor->zero(stream);
      tensor->zero(stream, {.over_gaps = true});
      return true;
    });
  }
  const auto view = unless_refused([&] { return buffer.view(layout.dtype, layout.shape, layout.byte_offset); });
  if (view) require(view->layout().bytes_needed() <= buffer.size(), "the view leaves its buffer");
}

const Register registered("layout", &run_layout);

}  // namespace
}  // namespace weir::fuzz
