// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/aligned.hpp"

#include <algorithm>

#include "adaptors/adaptor.hpp"
#include "base/alignment.hpp"

namespace weir {
namespace {

class Aligned final : public detail::Adaptor<MemoryResource> {
 public:
  Aligned(ResourcePtr upstream, std::size_t alignment, std::size_t threshold)
      : Adaptor(std::move(upstream), "aligned"), alignment_(alignment), threshold_(threshold) {}

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    spi::Request raised = request;
    if (request.bytes >= threshold_) raised.alignment = std::max(request.alignment, alignment_);
    return Adaptor::do_allocate(raised, shortage);
  }

  const std::size_t alignment_, threshold_;
};

}  // namespace

ResourcePtr make_aligned(ResourcePtr upstream, std::size_t alignment, std::size_t threshold) {
  if (!detail::can_align(alignment)) detail::refuse_alignment("make_aligned", alignment);
  return detail::make_adaptor<Aligned>(detail::checked_upstream(std::move(upstream), "make_aligned"),
                                       alignment, threshold);
}

}  // namespace weir
