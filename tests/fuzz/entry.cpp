// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry points, for the one target linked with them.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "sink.hpp"
#include "target.hpp"

extern "C" int LLVMFuzzerInitialize(int*, char***);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerInitialize(int*, char***) {
  weir::test::install_sink();
  const std::byte nothing{};
  weir::fuzz::targets().at(0).run({&nothing, 0});  // loads the drivers: files they open stay open
  (void)weir::test::take_reports();
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    weir::fuzz::run(weir::fuzz::targets().at(0), {reinterpret_cast<const std::byte*>(data), size});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "\n%s: %s\n", weir::fuzz::targets().at(0).name.c_str(), error.what());
    std::abort();
  }
  return 0;
}
