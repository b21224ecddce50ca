// SPDX-License-Identifier: Apache-2.0
// close(stream) spares itself a count of the stream only where the resource keeps it, if need be, before that returns.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "stream/fake_stream.hpp"
#include "time_limits.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"
#include "weir/spi/block.hpp"

namespace weir {
namespace {

/// Puts blocks aside with their record, as an application's resource may.
class PuttingAside final : public MemoryResource {
 public:
  explicit PuttingAside(ResourcePtr upstream)
      : MemoryResource(upstream->device(), "aside", {MemoryKind::pageable, true, false, false}),
        upstream_(std::move(upstream)) {}
  ~PuttingAside() override { give_back(); }
  [[nodiscard]] ResourceStats stats() const override { return {}; }
  std::size_t trim(std::size_t) override { return 0; }
  void give_back() {
    for (spi::Block* block : std::exchange(aside_, {})) deallocate_to(*upstream_, *block);
  }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    spi::Block* const block = allocate_from(*upstream_, request, shortage);
    if (block) block->resource = this;
    return block;
  }
  void do_deallocate(spi::Block& block) noexcept override { aside_.push_back(&block); }

  ResourcePtr upstream_;
  std::vector<spi::Block*> aside_;
};

class LentUses : public testing::Test {
 protected:
  LentUses() {
    auto* const fake = new test::FakeStream;
    fake->behaviour.on_end = [gone = gone] { *gone = true; };
    other.emplace(spi::Ref<spi::StreamState>::adopt(fake));
    fake->put(test::FakeStream::fill());
    unfinished = spi::Kept(*fake);
  }
  void finish() {
    static_cast<test::FakeStream*>(unfinished.get())->finish(1);
    unfinished = {};
  }
  void await_its_end() const {
    while (!*gone) std::this_thread::yield();
  }

  std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
  std::optional<Stream> other;
  spi::Kept unfinished;
  Stream home{host_device()};
};

TEST_F(LentUses, AreRetainedForWhoPutsBlocksAside) {
  const auto resource = std::make_shared<PuttingAside>(host::make_pageable_resource());
  resource->allocate(64, home).close(*other);
  finish();
  other.reset();
  EXPECT_FALSE(*gone) << "the record names it";
  resource->give_back();
  await_its_end();
}

TEST_F(LentUses, AreForgottenInAQuarantine) {
  const auto resource = make_debug(host::make_pageable_resource());
  resource->allocate(64, home).close(*other);
  finish();
  other.reset();
  const auto end = std::chrono::steady_clock::now() + test::answer_limit();
  while (!*gone && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(*gone) << "the memory stays in the quarantine, and nothing of its stream";
  EXPECT_GT(resource->stats().reserved, 0U);
}

TEST_F(LentUses, AreKeptWhileSomebodyWaits) {
  const auto pool = make_pool(host_device());
  for (const ResourcePtr& resource : {ResourcePtr(pool), host::make_pageable_resource()}) {
    resource->allocate(64, home).close(*other);
  }
  other.reset();
  finish();
  pool->trim(0);
  await_its_end();
  EXPECT_EQ(pool->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir
