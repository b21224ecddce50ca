// SPDX-License-Identifier: Apache-2.0
// Exports of a pool: memory that another process may still use is not given out again, and comes back when nobody does,
// however the others end.

#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exclusions.hpp"
#include "fds.hpp"
#include "fixture.hpp"
#include "spawn.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/callback_resource.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/spi/block.hpp"

namespace weir::test {
namespace {

std::vector<Memory> exportable_plain() {
  std::vector<Memory> chosen;
  for (const Memory& memory : memories()) {
    if (memory.exportable && !memory.stack) chosen.push_back(memory);
  }
  return chosen;
}

/// Of somebody who knows nothing of leases, and has something to do when a buffer ends. For one buffer at a time.
class OfAUser final : public MemoryResource {
 public:
  OfAUser(ResourcePtr upstream, std::function<void()> at_end)
      : MemoryResource(upstream->device(), "of a user",
                       {upstream->kind(), upstream->is_host_accessible(), upstream->is_device_accessible(), true}),
        upstream_(std::move(upstream)),
        at_end_(std::move(at_end)) {}
  [[nodiscard]] ResourceStats stats() const override { return upstream_->stats(); }
  std::size_t trim(std::size_t bytes_to_keep) override { return upstream_->trim(bytes_to_keep); }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    spi::Block* block = allocate_from(*upstream_, request, shortage);
    if (!block) return nullptr;
    block->resource = this;
    self_ = shared_from_this();
    return block;
  }
  void do_deallocate(spi::Block& block) noexcept override {
    const auto self = std::move(self_);  // ends last
    deallocate_to(*upstream_, block);
    at_end_();
  }

  ResourcePtr upstream_;
  std::function<void()> at_end_;
  std::shared_ptr<MemoryResource> self_;
};

/// A pool that has one segment, and buffers of all of it: what is not given back is missed at once.
class Lease : public OnMemory {
 protected:
  [[nodiscard]] Child spawn(const std::string& mode, const Device& on) const {
    return {WEIR_CHILD_DIR "/import_child", {mode, on.id(), std::to_string(bytes), "1"}};
  }
  [[nodiscard]] Buffer marked() const {
    Buffer buffer = pool->allocate(bytes, stream);
    write(buffer, pattern(bytes, 1), stream);
    stream.synchronize();
    return buffer;
  }
  /// The watchdog ends it if it never is.
  void wait_until_back() const {
    while (!is_back()) std::this_thread::yield();
  }
  [[nodiscard]] bool is_back() const {
    settle_files();
    return pool->try_allocate(bytes, stream).has_value();
  }

  const std::size_t bytes = std::max(std::size_t{1} << 20, device().find(resource->kind())->granularity);
  const PoolPtr pool = make_pool(
      resource, {.limit = bytes, .segment_bytes = bytes, .patience = std::chrono::milliseconds{1}, .exportable = true});
};
WEIR_FOR_EACH(Lease, exportable_plain(), MemoryName);

TEST_P(Lease, EndsWhenItsDescriptorBecomesAnother) {
  Buffer buffer = marked();
  ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
  buffer.close();
  EXPECT_FALSE(is_back());
  descriptor = ipc::Descriptor(descriptor.bytes(), {});
  EXPECT_TRUE(is_back());
}

TEST_P(Lease, LastsWhileTheDescriptorIsThere) {
  Buffer buffer = marked();
  std::optional<ipc::Descriptor> descriptor = buffer.ipc_descriptor(stream);
  buffer.close();
  EXPECT_FALSE(is_back());
  EXPECT_EQ(pool->stats().live_buffers, 1U);
  descriptor.reset();
  EXPECT_TRUE(is_back());
}

TEST_P(Lease, LastsWhileAnImportIsThere) {
  Buffer buffer = marked();
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  buffer.close();
  EXPECT_FALSE(is_back());
  Buffer slice = opened.slice(100, 200);
  opened.close();
  EXPECT_FALSE(is_back());
  EXPECT_BYTES(read(slice, stream), part(pattern(bytes, 1), 100, 200));
  slice.close();
  wait_until_back();
}

// What the importer still does on its streams is part of its use.
TEST_P(Lease, LastsForPendingWorkOfTheImporter) {
  const Stream other(device());
  Buffer buffer = marked();
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), other);
  buffer.close();
  Bytes seen(bytes);
  Gate gate;
  gate.hold(other);
  opened.copy_to(seen, other);
  opened.close();
  EXPECT_FALSE(is_back());
  gate.open();
  other.synchronize();
  wait_until_back();  // the stream lets go of the memory a moment later
  EXPECT_BYTES(seen, pattern(bytes, 1));
}

// And so is what the exporter does on its own.
TEST_P(Lease, IsNoShorterThanTheExportersUse) {
  Buffer buffer = marked();
  std::optional<ipc::Descriptor> descriptor = buffer.ipc_descriptor(stream);
  const Stream other(device());
  Bytes seen(bytes);
  Gate gate;
  gate.hold(other);
  buffer.copy_to(seen, other);
  buffer.close();
  descriptor.reset();
  EXPECT_FALSE(is_back());
  gate.open();
  other.synchronize();
  EXPECT_TRUE(is_back());
  EXPECT_BYTES(seen, pattern(bytes, 1));
}

TEST_P(Lease, EachExportHasItsOwn) {
  Buffer buffer = marked();
  std::vector<ipc::Descriptor> descriptors;
  for (int i = 0; i < 20; ++i) descriptors.push_back(buffer.ipc_descriptor(stream));
  buffer.close();
  while (!descriptors.empty()) {
    EXPECT_FALSE(is_back());
    descriptors.pop_back();
  }
  EXPECT_TRUE(is_back());
}

TEST_P(Lease, EndsWithAPeerThatIsKilled) {
  Buffer buffer = marked();
  Child child = spawn("hold", device());
  ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  ASSERT_EQ(child.line(), "open");
  buffer.close();
  EXPECT_FALSE(is_back());
  child.kill();
  wait_until_back();
}

// Over a socket that is on its way over itself. The kernel's collector runs when somebody closes a socket.
TEST_P(Lease, EndsWithAPeerThatBuriedIt) {
  Child child = spawn("bury", device());
  {
    Buffer buffer = marked();
    ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  }
  ASSERT_EQ(child.line(), "buried");
  EXPECT_FALSE(is_back());
  child.kill();
  while (!is_back()) (void)socket_pair(SOCK_STREAM);
}

TEST_P(Lease, EndsWithAPeerThatNeverTookIt) {
  Child child = spawn("late", device());
  {
    Buffer buffer = marked();
    ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  }
  EXPECT_FALSE(is_back());
  child.kill();
  wait_until_back();
}

// The other process exports what it was given, and ends.
TEST_P(Lease, GoesOnWithWhatAnImporterExports) {
  Buffer buffer = marked();
  Child child = spawn("lend", device());
  ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  const auto said = child.line();
  if (said != "lends" && device().backend() != "host") {
    EXPECT_NE(said.find("was not made exportable"), std::string::npos) << said;
    EXPECT_EQ(child.wait(), 0);
    GTEST_SKIP() << why(Lasting::not_built, "only the host's backend exports memory that it imported");
  }
  ASSERT_EQ(said, "lends");
  std::optional<ipc::Descriptor> passed_on = ipc::receive(child.socket(), std::chrono::seconds{30});
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
  buffer.close();
  EXPECT_FALSE(is_back());
  {
    const Buffer opened = ipc::open(std::exchange(passed_on, std::nullopt).value(), stream);
    EXPECT_BYTES(read(opened, stream), pattern(bytes, 1));
    EXPECT_FALSE(is_back());
  }
  wait_until_back();
}

// Nobody asks the pool for anything: the end of the lease alone gives the buffer back.
TEST_P(Lease, KeepsThePoolAndNoLonger) {
  std::weak_ptr<MemoryResource> upstream;
  std::optional<ipc::Descriptor> descriptor;
  Device on = device();
  {
    ResourcePtr own = make_resource(on, resource->kind(), {.exportable = true});
    upstream = own;
    const PoolPtr short_lived = make_pool(std::move(own), {.segment_bytes = bytes, .exportable = true});
    descriptor = short_lived->allocate(bytes, stream).ipc_descriptor(stream);
  }
  stream.synchronize();
  EXPECT_FALSE(upstream.expired());
  descriptor.reset();
  while (!upstream.expired()) std::this_thread::yield();  // the watchdog ends it if nobody does
}

TEST_P(Lease, AdaptorsPassItOn) {
  const auto limited = make_limiting(pool, bytes);
  EXPECT_TRUE(limited->reuses_memory());
  std::optional<ipc::Descriptor> descriptor;
  {
    const Buffer buffer = limited->allocate(bytes, stream);
    descriptor = buffer.ipc_descriptor(stream);
  }
  EXPECT_FALSE(is_back());
  EXPECT_FALSE(limited->try_allocate(256, stream).has_value());
  descriptor.reset();
  EXPECT_TRUE(is_back());
}

TEST_P(Lease, ResourcesOfUsersPassItOn) {
  const auto own = std::make_shared<OfAUser>(pool, [] {});
  std::optional<ipc::Descriptor> descriptor = own->allocate(bytes, stream).ipc_descriptor(stream);
  EXPECT_FALSE(is_back());
  descriptor.reset();
  EXPECT_TRUE(is_back());
}

TEST_P(Lease, EndsForALimitThatIsReached) {
  const auto roomy = make_pool(resource, {.segment_bytes = 2 * bytes, .exportable = true});
  const auto limited = make_limiting(roomy, bytes);
  for (int i = 0; i < 20; ++i) (void)limited->allocate(bytes, stream).ipc_descriptor(stream);
  EXPECT_TRUE(limited->try_allocate(bytes, stream).has_value()) << "nobody has any of it";
}

TEST_P(Lease, PoolsExportOnlyWhenTheyAreToldTo) {
  const PoolPtr to_itself = make_pool(resource, {.segment_bytes = bytes});
  EXPECT_FALSE(to_itself->is_exportable());
  EXPECT_ERROR(to_itself->allocate(64, stream).ipc_descriptor(stream), Errc::unsupported, "exportable = true");
  EXPECT_TRUE(pool->is_exportable());
  const ResourcePtr ordinary = make_resource(device(), resource->kind());
  EXPECT_ERROR(make_pool(ordinary, {.exportable = true}), Errc::unsupported, "exportable = true");
}

// Leases end on one thread and memory is released on another; whoever is called there may trim, and waits for the
// other.
TEST(Leases, EndWhileAReleaseTrims) {
  std::promise<void> releases, ends, released, ended;
  const PoolPtr pool = make_pool(host::make_shared_resource(), {.segment_bytes = 1 << 20, .exportable = true});
  const auto own = std::make_shared<OfAUser>(pool, [&] {
    ends.set_value();
    releases.get_future().wait();
    pool->trim(0);
    ended.set_value();
  });
  CallbackOptions functions;
  functions.host_accessible = true;
  functions.allocate = [](std::size_t bytes, const Stream&) { return ::operator new (bytes, std::align_val_t{256}); };
  functions.deallocate = [&](void* address, std::size_t) {
    releases.set_value();
    ends.get_future().wait();
    pool->trim(0);
    ::operator delete (address, std::align_val_t{256});
    released.set_value();
  };
  const ResourcePtr callbacks = make_callback_resource(host_device(), functions);
  const Stream stream(host_device());
  std::optional<ipc::Descriptor> descriptor = own->allocate(1000, stream).ipc_descriptor(stream);
  Gate gate;
  gate.hold(stream);
  callbacks->allocate(1000, stream).close(stream);
  gate.open();
  descriptor.reset();
  released.get_future().wait();  // the watchdog ends it if that never is
  ended.get_future().wait();
  pool->trim(0);  // both threads are out of what is here
}

TEST(Leases, DevicesHaveAPoolForThem) {
  for (const Device& device : devices()) {
    SCOPED_TRACE(device.id());
    const auto kinds = device.kinds();
    const bool can = std::any_of(kinds.begin(), kinds.end(), [](const KindInfo& info) { return info.exportable; });
    if (!can) {
      EXPECT_ERROR(make_pool(device, {.exportable = true}), Errc::unsupported, "");
      continue;
    }
    const PoolPtr pool = make_pool(device, {.exportable = true});
    const Stream stream(device);
    const Buffer opened = ipc::open(pool->allocate(3000, stream).ipc_descriptor(stream), stream);
    EXPECT_EQ(opened.size(), 3000U);
  }
}

}  // namespace
}  // namespace weir::test
