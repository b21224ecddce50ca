// SPDX-License-Identifier: Apache-2.0
#include "stack.hpp"

#include <memory>
#include <utility>

#include "forwarding.hpp"
#include "memory.hpp"
#include "weir/resources/pool.hpp"

namespace weir::test {
namespace {

/// Each kind of each backend's first device once, exportable where it can be.
bool once_per_kind(const Memory& plain) {
  return plain.device.ordinal() == 0 && plain.exportable == plain.info.exportable;
}

template <class Resource, int layers>
ResourcePtr repeated(ResourcePtr resource) {
  for (int i = 0; i < layers; ++i) resource = std::make_shared<Resource>(std::move(resource));
  return resource;
}

ResourcePtr pooled(ResourcePtr resource) { return make_pool(std::move(resource), {.segment_bytes = 1 << 20}); }

bool once_per_private_kind(const Memory& plain) { return plain.device.ordinal() == 0 && !plain.exportable; }

constexpr Stack list[] = {
    {"pool", 1, false, &pooled, &once_per_private_kind},
    {"forwarded3", 3, true, &repeated<ForwardingResource, 3>, &once_per_kind},
};

}  // namespace

std::span<const Stack> stacks() { return list; }

}  // namespace weir::test
