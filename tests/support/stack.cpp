// SPDX-License-Identifier: Apache-2.0
#include "stack.hpp"

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "forwarding.hpp"
#include "memory.hpp"
#include "weir/adaptors/aligned.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/failure_callback.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/adaptors/logging.hpp"
#include "weir/adaptors/prefetch.hpp"
#include "weir/adaptors/statistics.hpp"
#include "weir/adaptors/tracking.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

using enum MemoryKind;

bool on_first_device(const Memory& plain) { return plain.device.ordinal() == 0; }

/// Each kind of each backend's first device once, exportable where it can be.
bool once_per_kind(const Memory& plain) {
  return on_first_device(plain) && plain.exportable == plain.info.exportable;
}
bool once_per_private_kind(const Memory& plain) { return on_first_device(plain) && !plain.exportable; }

MemoryKind of_backend(const Memory& plain, MemoryKind host, MemoryKind vulkan, MemoryKind cuda) {
  const auto backend = plain.device.backend();
  return backend == "host" ? host : backend == "vulkan" ? vulkan : cuda;
}

/// One kind of each backend, exportable where it can be: enough for what asks its memory for little.
template <MemoryKind host, MemoryKind vulkan, MemoryKind cuda>
bool once_per_backend(const Memory& plain) {
  return once_per_kind(plain) && plain.info.kind == of_backend(plain, host, vulkan, cuda);
}
template <MemoryKind host, MemoryKind vulkan, MemoryKind cuda>
bool private_once_per_backend(const Memory& plain) {
  return once_per_private_kind(plain) && plain.info.kind == of_backend(plain, host, vulkan, cuda);
}

template <class Resource, int layers>
ResourcePtr repeated(ResourcePtr resource) {
  for (int i = 0; i < layers; ++i) resource = std::make_shared<Resource>(std::move(resource));
  return resource;
}

ResourcePtr pooled(ResourcePtr resource) {
  const bool exportable = resource->is_exportable();
  return make_pool(std::move(resource), {.segment_bytes = 1 << 20, .exportable = exportable});
}

// More than any test needs, less than some of them ask for.
ResourcePtr limited(ResourcePtr resource) {
  return make_limiting(std::move(resource), std::size_t{1} << 40U);
}
ResourcePtr counted(ResourcePtr resource) { return make_statistics(std::move(resource)); }
ResourcePtr aligned(ResourcePtr resource) { return make_aligned(std::move(resource), 4096, 1000); }
ResourcePtr retried(ResourcePtr resource) {
  return make_failure_callback(std::move(resource),
                               [](const AllocationFailure& failure) { return failure.attempt < 3; });
}

ResourcePtr checked(ResourcePtr resource) { return make_debug(std::move(resource)); }
// Some tests let buffers live on without a handle, and mean it.
ResourcePtr tracked(ResourcePtr resource) {
  return make_tracking(std::move(resource), {.stack_depth = 4, .report_leaks = false});
}

ResourcePtr prefetched(ResourcePtr resource) { return make_prefetch(std::move(resource)); }
bool moves(const Memory& plain) { return once_per_kind(plain) && plain.info.kind == managed; }
/// Writes nowhere; each line at once, so that every operation goes through all of it.
ResourcePtr logged(ResourcePtr resource) {
  return make_logging(std::move(resource), "/dev/null", {.buffer_bytes = 0});
}

/// An order of three adaptors, of which the pool is one. Another one for each memory, and for each seed.
ResourcePtr in_random_order(ResourcePtr resource) {
  std::vector<ResourcePtr (*)(ResourcePtr)> adaptors{&limited, &counted, &aligned,
                                                     &retried, &tracked, &checked, &logged, &pooled};
  if (resource->kind() == managed) adaptors.push_back(&prefetched);
  const std::string subject = std::to_string(stack_seed()) + resource->name();
  std::seed_seq seed(subject.begin(), subject.end());
  std::mt19937 random(seed);
  for (int layer = 0; layer < 3; ++layer) {
    const auto chosen = adaptors.begin() + static_cast<std::ptrdiff_t>(random() % adaptors.size());
    resource = (*chosen)(std::move(resource));
    adaptors.erase(chosen);
  }
  return resource;
}

constexpr Stack list[] = {
    {"pool", 1, false, &pooled, &on_first_device},
    {"forwarded3", 3, true, &repeated<ForwardingResource, 3>, &once_per_kind},
    {"limit", 1, false, &limited, &once_per_backend<shared, MemoryKind::device, vmm>},
    {"statistics", 1, false, &counted, &once_per_backend<pageable, upload, async>},
    {"aligned", 1, false, &aligned, &once_per_backend<shared, MemoryKind::device, MemoryKind::device>},
    {"failure_callback", 1, false, &retried, &once_per_backend<pageable, readback, pinned>},
    {"tracking", 1, false, &tracked, &once_per_backend<pageable, mappable, MemoryKind::device>},
    {"logging", 1, false, &logged, &once_per_backend<shared, MemoryKind::device, vmm>},
    {"logging_private", 1, false, &logged, &private_once_per_backend<pageable, readback, async>},
    {"debug", 1, false, &checked, &once_per_backend<shared, MemoryKind::device, vmm>},
    {"debug_private", 1, false, &checked, &private_once_per_backend<pageable, upload, async>},
    {"prefetch", 1, false, &prefetched, &moves},
    {"random3", 3, false, &in_random_order, &once_per_kind},
};

}  // namespace

std::span<const Stack> stacks() {
  static const std::vector<Stack> wanted = [] {
    const char* const names = std::getenv("WEIR_STACKS");
    const std::string text = ',' + std::string(names ? names : "") + ',';
    std::vector<Stack> chosen(std::begin(list), std::end(list));
    if (!names) return chosen;
    std::erase_if(chosen, [&](const Stack& stack) {
      return text.find(',' + std::string(stack.name) + ',') == std::string::npos;
    });
    return chosen;
  }();
  return wanted;
}

std::uint64_t stack_seed() {
  const char* text = std::getenv("WEIR_STACK_SEED");
  return text ? std::stoull(text) : 1;
}

}  // namespace weir::test
