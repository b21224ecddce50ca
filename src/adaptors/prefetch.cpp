// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/prefetch.hpp"

#include "adaptors/adaptor.hpp"
#include "copy/transfer.hpp"
#include "weir/spi/backend.hpp"

namespace weir {
namespace {

class Prefetch final : public detail::Adaptor<MemoryResource> {
 public:
  Prefetch(ResourcePtr upstream, const Device& target)
      : Adaptor(std::move(upstream), "prefetch"), target_(target) {}

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    spi::Block* const block = take(request, shortage);
    if (!block) return nullptr;
    try {
      detail::prefetch({block, block->offset}, request.bytes, target_.state(), *request.stream);
    } catch (...) {
      deallocate_to(*upstream_, *block);
      throw;
    }
    came(request.bytes);
    return block;
  }

  const Device target_;
};

}  // namespace

ResourcePtr make_prefetch(ResourcePtr upstream, const Device& target) {
  upstream = detail::checked_upstream(std::move(upstream), "make_prefetch");
  const auto& state = upstream->device().state();
  const auto prefetches = state.backend->streams->prefetches;
  if (!prefetches || !prefetches(state, upstream->kind(), target.state())) {
    throw Error(Errc::unsupported, "make_prefetch: memory of kind " +
                                       std::string(to_string(upstream->kind())) + " of " + state.describe() +
                                       " does not move to " + target.state().describe() +
                                       "; CUDA's managed memory moves between the " +
                                       "host and the CUDA devices that have that kind");
  }
  return detail::make_adaptor<Prefetch>(std::move(upstream), target);
}

ResourcePtr make_prefetch(ResourcePtr upstream) {
  upstream = detail::checked_upstream(std::move(upstream), "make_prefetch");
  const Device target = upstream->device();
  return make_prefetch(std::move(upstream), target);
}

}  // namespace weir
