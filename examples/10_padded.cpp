// SPDX-License-Identifier: Apache-2.0
// Rows with room for a Fourier transform in place: real numbers go in, complex ones come out of the same memory. The
// padding of several users is united, and copies never touch it.
#include <cmath>
#include <complex>
#include <cstdio>
#include <span>
#include <vector>

#include "weir/weir.hpp"

int main() {
  constexpr std::int64_t rows = 6, samples = 1000, bins = samples / 2 + 1;
  const weir::Device device = weir::best_device();
  const weir::Stream stream{device};
  const weir::ResourcePtr memory = weir::make_resource(device);

  // The transform wants room for the bins, and a kernel wants rows that begin on a line of 128 bytes.
  const weir::PaddingNeeds transform{.size = samples, .at_least = 2 * bins, .multiple_of = 2};
  const weir::PaddingNeeds kernel{.size = samples, .aligned_to = weir::elements_per_line(weir::f32)};
  const std::int64_t row = transform.unite(kernel).extent();

  const std::size_t bytes = weir::Layout::compact(weir::f32, {rows, row}).bytes_needed();
  const weir::Buffer buffer = memory->allocate(bytes, stream);
  const weir::Tensor real{buffer.share(), weir::Layout::padded(weir::f32, {rows, samples}, {rows, row})};
  const weir::Tensor fourier{buffer.share(), weir::Layout::padded(weir::c64, {rows, bins}, {rows, row / 2})};
  real.zero(stream, {.over_gaps = true});
  fourier.slice(1, {-1, {}}).fill(std::complex<float>(7, -7), stream);  // stands for what the transform leaves there

  // A twin in host memory lies like the array, in the memory from which copies are fastest.
  const weir::Tensor signal = real.empty_like_host(stream);
  stream.synchronize();
  for (std::int64_t i = 0; i < rows; ++i) {
    std::size_t n = 0;
    const std::span<float> values = signal.at(0, i).span<float>();
    for (float& sample : values) sample = std::sin(0.01F * static_cast<float>(n++ + i));
  }
  real.copy_from(signal, stream);
  const weir::Tensor back = fourier.empty_like_host(stream);
  fourier.copy_to(back, stream);
  stream.synchronize();

  int right = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto bin = back.at(0, i).span<const std::complex<float>>();
    const float last = signal.at(0, i).span<const float>()[samples - 1];
    right += bin[bins - 1] == std::complex<float>(7, -7) && bin[bins - 2].imag() == last;
  }
  std::printf("%lld rows of %lld samples, padded to %lld, on %s: %s\n", static_cast<long long>(rows),
              static_cast<long long>(samples), static_cast<long long>(row), device.id().c_str(),
              right == rows ? "the padding stayed" : "wrong");
  return right == rows ? 0 : 1;
}
