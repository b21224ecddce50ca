// SPDX-License-Identifier: Apache-2.0
#include "native_scenarios.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "hold.hpp"
#include "modelled_driver.hpp"
#include "peers.hpp"
#include "stream/releases.hpp"
#include "weir/adaptors/prefetch.hpp"
#include "weir/buffer.hpp"
#include "weir/cuda.hpp"
#include "weir/interop/cuda_allocator.hpp"
#include "weir/pool.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/resources.hpp"

namespace weir::cuda_test {
namespace {

using test::require;
using test::Stage;

constexpr std::size_t small = 4096;

void hand_streams_out(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.readable->allocate(small, stream);
  buffer.fill(std::byte{1}, stream);
  require(cuda::native(stream) != nullptr, "native stream");
  buffer.fill(std::byte{2}, stream);
  const Stream same = cuda::borrow(stage.device, cuda::native(stream));
  require(same == stream, "a stream borrowed back");
  const Stream legacy = cuda::borrow(stage.device, nullptr);
  legacy.wait(stream.record());
  buffer.fill(std::byte{3}, legacy);
  buffer.close();
  legacy.synchronize();
}

// More streams than can wait for values, so that the last one waits in another way.
void wait_for_the_host(const Stage& stage) {
  // What an earlier run gave up is freed now: freeing page-locked memory waits for the whole device, and lets other
  // calls of the driver wait meanwhile, those too that come before the gate opens.
  detail::drain_releases(stage.device.state());
  const Stream filler(stage.device);
  Buffer buffer = stage.readable->allocate(small, filler);
  buffer.fill(std::byte{0}, filler);
  std::vector<Stream> streams;
  for (int i = 0; i < 5; ++i) (void)cuda::native(streams.emplace_back(stage.device));
  // While the device itself is held back, drivers may let what makes or ends things wait for it: all is made before,
  // and the gate opens before anything ends.
  test::Hold gate;
  for (const Stream& stream : streams) stream.wait(gate.event());
  gate.open();
  filler.wait(streams.front().record());
  for (const Stream& stream : streams) stream.synchronize();
  buffer.fill(std::byte{1}, filler);
  filler.synchronize();
  require(buffer.host_data()[0] == std::byte{1}, "bytes after waits for the host");
}

void make_pools(const Stage& stage) {
  const Stream stream(stage.device);
  const auto pool = cuda::make_async_resource(stage.device, {.release_threshold = 1 << 20, .max_size = 64 << 20});
  Buffer a = pool->allocate(small, stream), b = pool->allocate(small, stream);
  a.fill(std::byte{1}, stream);
  b.copy_from(a, stream);
  const Stream other(stage.device);
  other.wait(stream.record());
  b.fill(std::byte{2}, other);
  b.close();
  a.close(other);
  require(!pool->try_allocate(std::size_t{128} << 20, stream), "more than the pool's limit");
}

// Idle pages of a pool are moved to where a request fits, and given back.
void page_a_pool(const Stage& stage) {
  const Stream stream(stage.device);
  const auto upstream = cuda::make_vmm_resource(stage.device);
  const std::size_t page = stage.device.find(MemoryKind::vmm)->granularity;
  const auto pool = make_pool(upstream, {.initial_bytes = 2 * page});
  Buffer a = pool->allocate(page, stream), b = pool->allocate(page, stream), c = pool->allocate(page, stream);
  b.fill(std::byte{5}, stream);
  a.close();
  c.close();
  stream.synchronize();
  Buffer large = pool->allocate(2 * page, stream);
  large.fill(std::byte{6}, stream);
  Buffer host = stage.readable->allocate(small, stream);
  host.copy_from(b.slice(0, small), stream);
  stream.synchronize();
  require(host.host_data()[0] == std::byte{5}, "bytes beside pages that were moved");
  b.close();
  large.close();
  (void)pool->trim(0);
}

void use_a_second_device(const Stage& stage) {
  const Device second = cuda::device(1);
  const Stream here(stage.device), there(second);
  Buffer a = cuda::make_device_resource(stage.device)->allocate(small, here);
  Buffer b = cuda::make_device_resource(second)->allocate(small, there);
  a.fill(std::byte{7}, there);  // on behalf of a stream of the other device
  b.copy_from(a, there);
  there.synchronize();
  Buffer host = stage.readable->allocate(small, here);
  host.copy_from(b, here);
  here.synchronize();
  require(host.host_data()[small - 1] == std::byte{7}, "bytes by way of a second device");
}

void move_managed_memory(const Stage& stage) {
  const Stream stream(stage.device), host(host_device());
  const auto managed = cuda::make_managed_resource(stage.device);
  Buffer a = make_prefetch(managed)->allocate(small, stream);
  Buffer b = make_prefetch(managed, host_device())->allocate(small, host);  // by way of a stream of the device
  a.fill(std::byte{7}, stream);
  host.wait(stream.record());
  b.copy_from(a, host);
  host.synchronize();
  require(b.host_data()[small - 1] == std::byte{7}, "bytes of memory that was moved");
}

// Streams that nobody owns for weir: memory comes back on its own stream, on another one, and without one.
void give_memory_by_address(const Stage& stage) {
  const Stream first(stage.device), second(stage.device);
  CUstream_st *const one = cuda::native(first), *const two = cuda::native(second);
  const auto pool = make_pool(cuda::make_vmm_resource(stage.device), {.paged = false});
  {
    cuda::Allocator allocator(pool);
    for (int i = 0; i < 3; ++i) {
      void* const address = allocator.allocate(one, small);
      require(address != nullptr, "an address");
      allocator.deallocate(one, address);
    }
    void* const a = allocator.allocate(one, small);
    void* const b = allocator.allocate(two, small);
    require(a != b, "two addresses");
    allocator.deallocate(two, a);
    allocator.deallocate(b);
    (void)allocator.allocate(one, small);  // which the end of the allocator gives back
  }
  (void)pool->trim(0);
}

/// Memory of another API, in a file as Mesa's CPU drivers make it.
class Elsewhere final : public spi::Segment {
 public:
  explicit Elsewhere(spi::DeviceState& owner) {
    device = &owner;
    spi::Segment::size = small;
    exportable = true;
  }
  static spi::ExportedHandle handle() {
    constexpr std::size_t header = 64;
    const std::array<std::size_t, 2> first{header + small, header};
    spi::UniqueFd fd(static_cast<int>(syscall(SYS_memfd_create, "elsewhere", MFD_CLOEXEC)));  // no call of weir's
    require(ftruncate(fd.get(), header + small) == 0 && pwrite(fd.get(), first.data(), sizeof first, 0) > 0, "a file");
    return {spi::HandleKind::vulkan_opaque_fd, std::move(fd), small};
  }
};

void view_other_memory(const Stage& stage) {
  auto& state = stage.device.state();
  auto memory = spi::Ref<spi::Segment>::adopt(new Elsewhere(host_device().state()));
  memory->add_view(*state.backend->segments->open_view(state, *memory, Elsewhere::handle()));
  const Stream stream(stage.device);
  auto view = spi::Ref<spi::Segment>::retain(memory->view_of(state));
  Buffer buffer = spi::make_adopted_buffer(std::move(view), 0, small, stream);
  buffer.fill(std::byte{9}, stream);
  Buffer host = stage.readable->allocate(small, stream);
  host.copy_from(buffer, stream);
  stream.synchronize();
  require(host.host_data()[small - 1] == std::byte{9}, "bytes by way of a view");
}

std::optional<test::Lack> needs_model(const Stage&) {
  if (test::find_in_model("fake_cuda_live_imports")) return {};
  return test::Lack{test::Lasting::this_machine, "its CUDA driver opens no files of drivers on the CPU"};
}

std::optional<test::Lack> needs_managed(const Stage& stage) {
  if (stage.device.find(MemoryKind::managed)) return {};
  return test::Lack{test::Lasting::this_machine, "its CUDA device has no concurrent managed memory"};
}

std::optional<test::Lack> needs_two(const Stage&) {
  for (const BackendInfo& backend : backends()) {
    if (backend.name == "cuda" && backend.devices.size() > 1) return {};
  }
  return test::Lack{test::Lasting::this_machine, "it has one CUDA device"};
}

std::optional<test::Lack> needs_pages(const Stage& stage) {
  if (stage.device.find(MemoryKind::vmm)) return {};
  return test::Lack{test::Lasting::this_machine, "its CUDA device has no virtual memory management"};
}

constexpr test::Scenario native[] = {{"hand_streams_out", &hand_streams_out},
                                     {"wait_for_the_host", &wait_for_the_host},
                                     {"make_pools", &make_pools},
                                     {"give_memory_by_address", &give_memory_by_address, &needs_pages},
                                     {"page_a_pool", &page_a_pool, &needs_pages},
                                     {"move_managed_memory", &move_managed_memory, &needs_managed},
                                     {"view_other_memory", &view_other_memory, &needs_model},
                                     {"use_a_second_device", &use_a_second_device, &needs_two}};

}  // namespace

std::span<const test::Scenario> native_scenarios() { return native; }

const test::Scenario* scenario_named(std::string_view name) {
  for (const auto& list : {native_scenarios(), test::scenarios(), test::peers(), test::peers_at_paths()}) {
    for (const test::Scenario& scenario : list) {
      if (scenario.name == name) return &scenario;
    }
  }
  return nullptr;
}

}  // namespace weir::cuda_test
