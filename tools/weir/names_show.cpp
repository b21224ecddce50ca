// SPDX-License-Identifier: Apache-2.0
#include "names_show.hpp"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <ios>

#include "npy.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"

namespace weir::cli {
namespace {

constexpr std::int64_t most_printed = 1000;  // elements

// A copy without gaps, in host memory.
Tensor copy_to_host(const Tensor& tensor) {
  const Stream stream(tensor.buffer().device());
  const Layout layout = Layout::compact(tensor.layout().dtype, tensor.layout().shape);
  Tensor copy(host::make_pageable_resource()->allocate(layout.bytes_needed(), stream), layout);
  tensor.copy_to(copy, stream);
  stream.synchronize();
  return copy;
}

template <class T>
std::string text_of(const std::byte* at) {
  T value{};
  std::copy_n(at, sizeof value, reinterpret_cast<std::byte*>(&value));
  char text[40];
  if constexpr (std::is_floating_point_v<T>) {
    std::snprintf(text, sizeof text, sizeof(T) == 4 ? "%.7g" : "%.16g", static_cast<double>(value));
    return text;
  } else {
    return std::to_string(value);
  }
}

std::string hex(const std::byte* at, std::size_t bytes) {
  std::string text = "0x";
  for (std::size_t i = bytes; i-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(at[i]));
    text += digits;
  }
  return text;
}

std::string element(DType type, const std::byte* at) {
  if (type == i8) return text_of<std::int8_t>(at);
  if (type == i16) return text_of<std::int16_t>(at);
  if (type == i32) return text_of<std::int32_t>(at);
  if (type == i64) return text_of<std::int64_t>(at);
  if (type == u8 || type == bool8) return text_of<std::uint8_t>(at);
  if (type == u16) return text_of<std::uint16_t>(at);
  if (type == u32) return text_of<std::uint32_t>(at);
  if (type == u64) return text_of<std::uint64_t>(at);
  if (type == f32) return text_of<float>(at);
  if (type == f64) return text_of<double>(at);
  return hex(at, type.bytes());  // C++20 has no type for these
}

// One line for each row: the positions along the last dimension.
int print(const Tensor& tensor) {
  const Layout& layout = tensor.layout();
  const std::int64_t count = layout.elements();
  const std::int64_t row = layout.shape.empty() ? 1 : std::max<std::int64_t>(layout.shape.back(), 1);
  const std::int64_t printed = std::min(count, most_printed);
  const std::byte* at = tensor.buffer().host_data();
  for (std::int64_t i = 0; i < printed; ++i, at += layout.dtype.bytes()) {
    const bool ends = (i + 1) % row == 0 || i + 1 == printed;
    std::printf("%s%c", element(layout.dtype, at).c_str(), ends ? '\n' : ' ');
  }
  if (count > most_printed) {
    std::printf("... %lld elements in all; name a file to get them\n", static_cast<long long>(count));
  }
  return 0;
}

}  // namespace

int show_name(const std::string& path, const std::string& name, const char* file) {
  ipc::Client client(path);
  const Tensor copy = copy_to_host(client.get(name, Stream(host_device())));
  if (file == nullptr) return print(copy);
  const std::string header = npy_header(copy.layout());
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  out.write(reinterpret_cast<const char*>(copy.buffer().host_data()),
            static_cast<std::streamsize>(copy.buffer().size()));
  out.close();
  if (out) return 0;
  std::fprintf(stderr, "weir: %s could not be written\n", file);
  return 1;
}

}  // namespace weir::cli
