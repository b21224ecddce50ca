// SPDX-License-Identifier: Apache-2.0
#pragma once
// A resource that hands freed memory out again: what is freed too early shows as wrong bytes.

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"

namespace weir::test::random {

/// Memory freed here goes to the next request of the same size.
enum class Reuse {
  passed,   ///< once all its points have passed
  ordered,  ///< at once; the new owner's stream waits for its points
};

/// Thread-safe, as every resource is. What is kept goes back to the upstream by `trim` and at the end.
class Recycling final : public MemoryResource {
 public:
  Recycling(ResourcePtr upstream, Reuse reuse);
  ~Recycling() override;

  [[nodiscard]] ResourceStats stats() const override { return upstream_->stats(); }
  std::size_t trim(std::size_t bytes_to_keep) override;
  [[nodiscard]] ResourcePtr upstream() const override { return upstream_; }

 private:
  struct Kept {
    spi::Block* block;
    std::vector<spi::Point> points;  ///< after which its memory is free
    std::size_t alignment;
  };

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override;
  void do_deallocate(spi::Block& block) noexcept override;
  spi::Block* take_kept(const spi::Request& request);
  void give_back();

  ResourcePtr upstream_;
  Reuse reuse_;
  std::mutex mutex_;
  std::vector<Kept> kept_;
  std::map<const spi::Block*, std::size_t> out_alignments_;  ///< what blocks were asked for; of blocks that are out
  std::size_t out_ = 0;
  std::shared_ptr<MemoryResource> self_;  ///< while blocks are out
};

}  // namespace weir::test::random
