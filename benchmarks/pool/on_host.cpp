// SPDX-License-Identifier: Apache-2.0
#include "peers/host/malloc.hpp"
#include "pool/common.hpp"
#include "pool/fills.hpp"
#include "support/suite.hpp"

namespace weir::bench {
namespace {

const Suite suite("host", [](const Device& device) {
  const auto weir = weir_on(device);
  add_common(weir, device);
  add_streams_with_fills(weir);
  const Subject<Malloc> peer{"host", "malloc", [](std::size_t) { return std::make_shared<Malloc>(); }};
  add_common(peer, device);
});

}  // namespace
}  // namespace weir::bench
