// SPDX-License-Identifier: Apache-2.0
#include "weir/resources/aligned.hpp"

#include <bit>

#include "resources/adaptor.hpp"

namespace weir {
namespace {

constexpr std::size_t largest_alignment = std::size_t{1} << 30;

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
  if (!std::has_single_bit(alignment) || alignment > largest_alignment) {
    throw Error(Errc::invalid_argument, "make_aligned: " + std::to_string(alignment) +
                                            " is not a power of two of at most " +
                                            std::to_string(largest_alignment) + " bytes");
  }
  return detail::make_adaptor<Aligned>(detail::checked_upstream(std::move(upstream), "make_aligned"),
                                       alignment, threshold);
}

}  // namespace weir
