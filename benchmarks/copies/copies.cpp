// SPDX-License-Identifier: Apache-2.0
// copy/dense: 1 GiB within a device, or a quarter of its memory where that is less, from one buffer to another.
// copy/padded: the same bytes from rows of 4 KiB that lie 512 bytes apart.
// copy/turned: 64 MiB of a matrix of 4 096 by 4 096 elements, to where rows are columns.
#include <algorithm>
#include <cstring>
#include <string>

#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

constexpr std::int64_t row = 4096, gap = 512;

std::int64_t rows_for(const Device& device) {
  std::size_t bytes = std::size_t{1} << 30;
  if (device.total_memory() != 0) bytes = std::min(bytes, device.total_memory() / 4);
  return static_cast<std::int64_t>(bytes) / row;
}

Tensor tensor(const Device& device, const Layout& layout, const Stream& stream) {
  Buffer buffer = make_resource(device)->allocate(layout.bytes_needed(), stream);
  buffer.fill(std::byte{1}, stream);  // so that the memory is there
  return {std::move(buffer), layout};
}

void copy(benchmark::State& state, const Device& device, const Layout& target, const Layout& source) {
  const Stream stream(device);
  const Tensor dst = tensor(device, target, stream), src = tensor(device, source, stream);
  stream.synchronize();
  for (auto _ : state) {
    src.copy_to(dst, stream);
    stream.synchronize();
  }
  state.SetLabel(size_name(static_cast<std::size_t>(target.elements()) * target.dtype.bytes()));
}

void add(const Device& device) {
  const std::string backend = std::string(device.backend()) + "/copy/";
  const std::int64_t rows = rows_for(device);
  const Layout dense = Layout::compact(u8, {rows, row}), padded{u8, {rows, row}, {row + gap, 1}, 0};
  const Layout matrix = Layout::compact(f32, {4096, 4096});
  const auto add = [&](const char* what, const Layout& target, const Layout& source) {
    add_row(backend + what + "/weir", [=](benchmark::State& state) { copy(state, device, target, source); });
  };
  add("dense", dense, dense);
  add("padded", dense, padded);
  add("turned", matrix, matrix.transpose());
  if (device != host_device()) return;
  add_row(backend + "dense/memcpy", [=](benchmark::State& state) {
    const Stream stream(device);
    const Tensor dst = tensor(device, dense, stream), src = tensor(device, dense, stream);
    stream.synchronize();
    for (auto _ : state)
      benchmark::DoNotOptimize(std::memcpy(dst.buffer().host_data(), src.buffer().host_data(), dense.bytes_needed()));
  });
}

const Suite suite("", add);

}  // namespace
}  // namespace weir::bench
