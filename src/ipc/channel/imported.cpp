// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/imported.hpp"

#include <utility>

#include "ipc/channel/link.hpp"
#include "memory/foreign_resource.hpp"
#include "memory/resource_of.hpp"
#include "weir/spi/block.hpp"

namespace weir::detail::channel {
namespace {

/// Memory that peers lent. Many buffers may have the same segment.
class BorrowedResource final : public ForeignResource {
 public:
  using ForeignResource::opened;
  explicit BorrowedResource(spi::DeviceState& device) : ForeignResource(device, "borrowed", true) {}

  Buffer borrow(const OpenSegment& from, std::size_t offset, std::size_t bytes, const Stream& stream,
                std::shared_ptr<Link> link, std::uint64_t grant) {
    auto loan = std::make_unique<Loan>(*this, from.counted, std::move(link), grant, bytes);
    spi::Block& block = make_block(from.segment, offset, bytes, bytes, stream, Reserves::nothing);
    BlockStore::tag(block) = loan.release();
    return Buffer(block);
  }

 private:
  struct Loan final : ReleaseListener {
    Loan(BorrowedResource& from, std::shared_ptr<const void> open, std::shared_ptr<Link> over, std::uint64_t number,
         std::size_t size) noexcept
        : resource(from), counted(std::move(open)), link(std::move(over)), grant(number), bytes(size) {}
    void segment_released(std::size_t) noexcept override {
      resource.uncount(bytes, Reserves::nothing);
      link->give_back(grant);
      delete this;
    }
    BorrowedResource& resource;
    const std::shared_ptr<const void> counted;
    const std::shared_ptr<Link> link;
    const std::uint64_t grant;
    const std::size_t bytes;
  };

  // The driver is not asked for anything: the peer's segment stays open.
  void end(spi::Block& block) noexcept override {
    end_block(block, false, *static_cast<Loan*>(BlockStore::tag(block)));
  }
};

}  // namespace

OpenSegment open_segment(spi::Ref<spi::Segment> segment) {
  auto counted = resource_of<BorrowedResource>(*segment->device).opened().count(*segment);
  return {std::move(segment), std::move(counted)};
}

Buffer import_buffer(const OpenSegment& from, std::size_t offset, std::size_t bytes, const Stream& stream,
                     std::shared_ptr<Link> link, std::uint64_t grant) {
  auto& resource = resource_of<BorrowedResource>(*from.segment->device);
  return resource.borrow(from, offset, bytes, stream, std::move(link), grant);
}

}  // namespace weir::detail::channel
