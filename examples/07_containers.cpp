// SPDX-License-Identifier: Apache-2.0
// Code that is given no resource takes the current one; containers of the standard library live in it, too.
#include <cstdio>
#include <numeric>
#include <vector>

#include "weir/interop/pmr.hpp"
#include "weir/weir.hpp"

namespace {

/// Somewhere in a library.
float mean_of_squares(std::size_t count) {
  weir::PmrResource memory(weir::current_resource(weir::host_device()));
  std::pmr::vector<float> values(count, &memory);
  std::iota(values.begin(), values.end(), 1.0f);
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0f) / static_cast<float>(count);
}

}  // namespace

int main() {
  const weir::Device host = weir::host_device();
  const float before = mean_of_squares(3);  // in a pool that was made for it

  // The program bounds and counts what its libraries use.
  auto counted = weir::make_statistics(weir::make_limiting(weir::make_pool(host), 1 << 20));
  const weir::ResourcePtr previous = weir::set_current_resource(host, counted);
  const float after = mean_of_squares(1000);
  bool refused = false;
  try {
    (void)mean_of_squares(1 << 20);
  } catch (const std::bad_alloc& shortage) {
    refused = true;
    std::printf("%s\n", shortage.what());
  }
  weir::set_current_resource(host, previous);

  std::printf("%.3f, %.0f; at most %zu bytes, %zu now\n", before, after, counted->stats().peak_in_use,
              counted->stats().in_use);
  return refused && counted->stats().peak_in_use == 4000 && counted->stats().in_use == 0 ? 0 : 1;
}
