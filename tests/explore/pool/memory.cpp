// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include "memory/lent.hpp"
#include "memory/lent_returns.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/resources.hpp"

namespace weir {

// Of parts of the library that pools only ask: nobody lends anything here, and every resource is the one below.
bool detail::settle_lent() { return false; }
detail::Lent detail::lent_of(const MemoryResource&) { return {}; }
void detail::count_lent(const MemoryResource&, ResourceStats&) {}
void detail::tell_of_lent(const MemoryResource&, Shortage&) {}
std::uint32_t detail::lent_returns() noexcept { return 0; }
bool detail::some_return() noexcept { return false; }
void detail::wait_for_return(std::uint32_t, sync::Clock::time_point) noexcept {}
bool detail::may_wait_for_returns() noexcept { return true; }
std::span<const KindInfo> Device::kinds() const noexcept { return state_->kinds; }
const KindInfo* Device::find(MemoryKind) const noexcept { return nullptr; }
MemoryKind Device::default_kind() const noexcept { return {}; }
std::size_t Device::total_memory() const noexcept { return 0; }
ResourcePtr spi::make_segment_resource(DeviceState&, MemoryKind, bool, std::uint64_t, std::shared_ptr<Source>) {
  return nullptr;
}

namespace test {
namespace {

std::size_t out = 0;

class Addresses final : public spi::Segment {
 public:
  explicit Addresses(std::size_t bytes) {
    device = &test::device();
    size = bytes;
    address = 0x100000;
    device_accessible = true;
    ++out;
  }

 private:
  ~Addresses() override { --out; }
};

class Upstream final : public MemoryResource {
 public:
  Upstream() : MemoryResource(Device(test::device()), "explored", {.device_accessible = true}) {}
  ResourceStats stats() const override { return {}; }
  std::size_t trim(std::size_t) override { return 0; }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage&) override {
    auto* const block = new spi::Block;
    block->segment = new Addresses(request.bytes);
    block->size = request.bytes;
    block->resource = this;
    return block;
  }
  void do_deallocate(spi::Block& block) noexcept override {
    block.segment->release();
    delete &block;
  }
};

[[maybe_unused]] const auto made_before_any_run = upstream();

}  // namespace

ResourcePtr upstream() {
  static const ResourcePtr one = std::make_shared<Upstream>();
  return one;
}

std::size_t segments_out() { return out; }

void begin_world_of_pools() {
  begin_world();
  out = 0;
}

void be_the_first_thread() { explore::running->system_id() = 0x100; }

Stream handle(Timeline* timeline) { return Stream(spi::Ref<spi::StreamState>::adopt(timeline)); }

}  // namespace test
}  // namespace weir
