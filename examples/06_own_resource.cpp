// SPDX-License-Identifier: Apache-2.0
// Write a resource that stands on another: this one counts what passes through it.
#include <cstdio>
#include <mutex>

#include "weir/spi/block.hpp"
#include "weir/weir.hpp"

class CountingResource final : public weir::MemoryResource {
 public:
  explicit CountingResource(weir::ResourcePtr upstream)
      : MemoryResource(upstream->device(), "counting(" + upstream->name() + ")",
                       {upstream->kind(), upstream->is_host_accessible(), upstream->is_device_accessible(),
                        upstream->is_exportable(), upstream->reuses_memory()}),
        upstream_(std::move(upstream)) {}

  weir::ResourceStats stats() const override { return upstream_->stats(); }
  std::size_t trim(std::size_t bytes_to_keep) override { return upstream_->trim(bytes_to_keep); }
  weir::ResourcePtr upstream() const override { return upstream_; }
  [[nodiscard]] int allocations() const { return allocations_; }

 private:
  weir::spi::Block* do_allocate(const weir::spi::Request& request, weir::Shortage& shortage) override {
    weir::spi::Block* block = allocate_from(*upstream_, request, shortage);
    if (!block) return nullptr;
    block->resource = this;  // it comes back here
    const std::scoped_lock lock(mutex_);
    if (live_++ == 0) self_ = shared_from_this();  // and finds this alive
    ++allocations_;
    return block;
  }

  void do_deallocate(weir::spi::Block& block) noexcept override {
    deallocate_to(*upstream_, block);
    std::shared_ptr<MemoryResource> last;  // dropped after the lock
    const std::scoped_lock lock(mutex_);
    if (--live_ == 0) last = std::move(self_);
  }

  weir::ResourcePtr upstream_;
  std::mutex mutex_;
  std::shared_ptr<MemoryResource> self_;
  int live_ = 0, allocations_ = 0;
};

int main() {
  const weir::Device device = weir::best_device();
  const weir::Stream stream{device};
  auto counting = std::make_shared<CountingResource>(weir::make_resource(device));
  weir::Buffer a = counting->allocate(4096, stream);
  const weir::Buffer b = a.copy_to(stream);  // from the same resource
  a.close();
  std::printf("%s: %d allocations, %zu live\n", b.memory_resource()->name().c_str(), counting->allocations(),
              counting->stats().live_buffers);
  return counting->allocations() == 2 && counting->stats().live_buffers == 1 ? 0 : 1;
}
