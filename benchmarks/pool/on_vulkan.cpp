// SPDX-License-Identifier: Apache-2.0
#include "peers/vulkan/memory.hpp"
#include "pool/common.hpp"
#include "pool/fills.hpp"
#include "support/suite.hpp"

namespace weir::bench {
namespace {

const Suite suite("vulkan", [](const Device& device) {
  const auto weir = weir_on(device);
  add_common(weir, device);
  add_streams_with_fills(weir);
  add_common(vulkan_memory(device), device);
});

}  // namespace
}  // namespace weir::bench
