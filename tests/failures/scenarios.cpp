// SPDX-License-Identifier: Apache-2.0
#include "scenarios.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "hold.hpp"
#include "stream/releases.hpp"
#include "weir/adaptors/aligned.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/failure_callback.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/adaptors/statistics.hpp"
#include "weir/adaptors/tracking.hpp"
#include "weir/buffer.hpp"
#include "weir/callback_resource.hpp"
#include "weir/device_vector.hpp"
#include "weir/dlpack.hpp"
#include "weir/host.hpp"
#include "weir/host_mirror.hpp"
#include "weir/interop/buffer_table.hpp"
#include "weir/interop/pmr.hpp"
#include "weir/ipc.hpp"
#include "weir/mirrored_buffer.hpp"
#include "weir/pool.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

constexpr std::size_t small = 4096;

std::span<const std::byte> source(unsigned char value) {
  static std::array<std::byte, small> bytes;
  bytes.fill(std::byte{value});
  return bytes;
}

void allocate_every_kind(const Stage& stage) {
  const Stream stream(stage.device);
  for (const KindInfo& info : stage.device.kinds()) {
    const auto resource = make_resource(stage.device, info.kind);
    Buffer buffer = resource->allocate(small, stream);
    require(buffer.size() == small, "size");
    buffer.close();
    (void)resource->allocate(small, stream, 4096);
  }
}

void allocate_shareable(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.shareable->allocate(small, stream);
  buffer.fill(std::byte{1}, stream);
  stream.synchronize();
}

void allocate_nothing(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer a = stage.plain->allocate(0, stream);
  Buffer b = stage.plain->allocate(0, stream);
  a.fill(std::byte{1}, stream);
  a.copy_from(b, stream);
  require(a.host_data() == nullptr && a.device_address() == 0, "addresses of zero bytes");
  b.close(stream);
}

void exhaust(const Stage& stage) {
  const Stream stream(stage.device);
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 4;
  require(!stage.plain->try_allocate(most, stream), "try_allocate of everything");
  try {
    (void)stage.plain->allocate(most, stream);
  } catch (const OutOfMemory&) {
    return;
  }
  throw WrongResult{"allocate of everything"};
}

void fill(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.readable->allocate(small, stream);
  buffer.fill(std::uint64_t{0x0101010101010101}, stream);
  buffer.fill(std::uint32_t{0x02020202}, 4, 64, stream);
  buffer.fill(std::byte{3}, 5, 7, stream);
  buffer.fill(std::uint64_t{0x0102030401020304}, 1024, 1024, stream);
  buffer.fill(std::uint64_t{0x0908070605040302}, 1025, 512, stream);
  stream.synchronize();
  const std::byte* data = buffer.host_data();
  require(data[0] == std::byte{1} && data[4] == std::byte{2} && data[11] == std::byte{3}, "filled bytes");
}

void fill_many(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.plain->allocate(small, stream);
  for (std::uint32_t i = 0; i < 70; ++i) buffer.fill(i, stream);
  stream.synchronize();
}

void copy_on_device(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer a = stage.plain->allocate(small, stream);
  a.fill(std::byte{7}, stream);
  const Buffer b = a.copy_to(stream);
  Buffer c = stage.readable->allocate(small, stream);
  c.copy_from(b, 0, 0, small / 2, stream);
  c.copy_from(b, 0, small / 2, small / 2, stream);
  a.close();
  stream.synchronize();
  require(lands(c, stream, 7), "copied bytes");
}

void copy_through_host(const Stage& stage) {
  const Stream stream(stage.device);
  const auto pageable = host::make_pageable_resource();
  Buffer from = pageable->allocate(small, stream);
  from.copy_from(source(9), stream);
  Buffer there = stage.plain->allocate(small, stream);
  there.copy_from(from, stream);
  Buffer back = pageable->allocate(small, stream);
  back.copy_from(there, stream);
  stream.synchronize();
  require(lands(back, stream, 9), "bytes that went through the device");
}

void copy_on_a_host_stream(const Stage& stage) {
  const Stream stream(host_device());
  const auto pageable = host::make_pageable_resource();
  Buffer there = stage.plain->allocate(small, stream);
  there.fill(std::byte{5}, stream);
  Buffer back = pageable->allocate(small, stream);
  back.copy_from(there, stream);
  require(lands(back, stream, 5), "bytes copied on a host stream");
}

void copy_regions(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer a = stage.plain->allocate(256, stream);
  a.fill(std::byte{7}, stream);
  Buffer b = stage.plain->allocate(256, stream);
  a.view(u32, {8, 8}).transpose().copy_to(b.view(u32, {8, 8}), stream);
  Buffer back = host::make_pageable_resource()->allocate(256, stream);
  back.fill(std::byte{7}, stream);
  b.view(u32, {8, 8}).slice(1, {{}, {}, 2}).copy_to(back.view(u32, {4, 16}).transpose().slice(0, {{}, {}, 2}), stream);
  stream.synchronize();
  require(lands(b, stream, 7), "turned elements");
  require(lands(back, stream, 7), "elements of every other column");
}

void fill_elements(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.plain->allocate(96, stream);
  const Tensor words = buffer.view(u32, {3, 8}), wide = buffer.view(c128, {3, 2});
  words.slice(1, {{}, {}, 2}).fill(std::uint32_t{0x02020202}, stream);
  words.slice(1, {1, {}, 2}).fill(std::uint32_t{0x02020202}, stream);
  require(lands(buffer, stream, 2), "elements of every other column");
  std::array<std::byte, 16> element;
  element.fill(std::byte{3});
  element[5] = std::byte{0};
  wide.at(1, 0).fill_pattern(element, stream);
  words.zero(stream);
  require(lands(buffer, stream, 0), "zeros");
}

// Each takes several allocations, of which the last may fail.
void mirror(const Stage& stage) {
  const Stream stream(stage.device), other(stage.device);
  MirroredBuffer copies(small, {stream, other, stream}, std::vector{stage.plain, stage.readable, stage.plain});
  copies.write(source(1));
  copies.write(source(2), 1);
  copies.broadcast(1);
  require(lands(copies.copy(2), stream, 2), "bytes of another copy");
  HostMirror both(stage.plain->allocate(small, stream), stream);
  both.device().fill(std::byte{3}, stream);
  both.sync_to_host(stream);
  stream.synchronize();
  both.sync_to_device(16, 64, stream);
  require(lands(both.device(), stream, 3), "bytes of a mirror");
  const Tensor tensor = both.device().view(u8, {64, 64}).slice(1, {0, 60});
  const Tensor twin = tensor.empty_like_host(stream);
  tensor.copy_to(twin, stream);
  stream.synchronize();
}

void grow(const Stage& stage) {
  const Stream stream(stage.device);
  DeviceVector<std::byte> vector(stage.plain, source(4).first(100), stream);
  const auto holds = [&](std::size_t size) {
    require(vector.size() == size, "size of a vector");
    require(lands(vector.buffer().slice(0, size), stream, 4), "elements of a vector");
  };
  try {
    vector.push(source(4).first(300), stream);
    vector.shrink_to_fit(stream);
    vector.resize(200, stream);
    vector.reserve(small, stream);
  } catch (...) {
    const std::size_t size = vector.size();  // a call that is refused changes nothing
    require(size == 100 || size == 400 || size == 200, "size after a refused call");
    throw;
  }
  holds(200);
  require(vector.wait_for_element(199, stream) == std::byte{4}, "the last element");
}

void spans(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer plain = stage.plain->allocate(small, stream);
  plain.copy_from(source(4), stream);
  require(lands(plain, stream, 4), "bytes of plain memory");
  Buffer readable = stage.readable->allocate(small, stream);
  readable.fill(std::byte{6}, stream);
  readable.copy_from(source(8), stream);
  require(lands(readable, stream, 8), "bytes of readable memory");
}

void share_and_slice(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer whole = stage.readable->allocate(small, stream);
  Buffer second = whole.share();
  Buffer part = whole.slice(1024, 1024);
  whole.fill(std::byte{1}, stream);
  whole.close();
  part.fill(std::byte{2}, stream);
  part.close(stream);
  stream.synchronize();
  require(second.host_data()[1023] == std::byte{1} && second.host_data()[1024] == std::byte{2}, "shared bytes");
}

void close_elsewhere(const Stage& stage) {
  const Stream home(stage.device);
  const Stream other(stage.device);
  Buffer a = stage.plain->allocate(small, home);
  Buffer b = stage.plain->allocate(small, home);
  Buffer c = stage.plain->allocate(small, home);
  a.fill(std::byte{1}, home);
  other.wait(home.record());
  a.fill(std::byte{2}, other);
  a.close(other);
  c.close(other);  // where nothing used it before
  b.use_on(other);
  b.close();
  home.synchronize();
  other.synchronize();
}

void order_streams(const Stage& stage) {
  const Stream first(stage.device);
  const Stream second(stage.device);
  const Stream third(host_device());
  Buffer buffer = stage.readable->allocate(small, first);
  buffer.fill(std::byte{1}, first);
  second.wait(first.record());
  buffer.fill(std::byte{2}, second);
  third.wait(second.record());
  buffer.fill(std::byte{3}, third);
  first.wait(third.record());
  first.flush();
  const Event end = first.record();
  end.wait();
  require(end.done() && buffer.host_data()[0] == std::byte{3}, "order of three streams");
}

void wait_with_limits(const Stage& stage) {
  Hold hold;
  const Stream stream(stage.device);
  Buffer buffer = stage.plain->allocate(small, stream);
  stream.wait(hold.event());
  buffer.fill(std::byte{1}, stream);
  const Event event = stream.record();
  require(event.wait(std::chrono::nanoseconds{1}) != WaitStatus::ready && !event.done(), "a held stream");
  buffer.close();
  hold.open();
  stream.synchronize();
}

void call(const Stage& stage) {
  const Stream stream(stage.device);
  const auto ran = std::make_shared<std::atomic<int>>(0);
  Buffer buffer = stage.plain->allocate(small, stream);
  buffer.fill(std::byte{1}, stream);
  stream.call([ran] { ++*ran; });
  buffer.fill(std::byte{2}, stream);
  stream.call([ran] { ++*ran; });
  stream.synchronize();
  require(*ran == 2, "host functions");
}

void make_streams(const Stage& stage) {
  const Stream first(stage.device);
  (void)first.record();
  const Stream second(stage.device);
  second.wait(first.record());
  Buffer buffer = stage.plain->allocate(small, second);
  buffer.fill(std::byte{1}, second);
  buffer.close();
  (void)second.done();
}

void exchange_tensors(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.readable->allocate(small, stream);
  buffer.fill(std::byte{1}, stream);
  const Tensor tensor = buffer.view(f32, {16, 64});
  {
    ManagedTensor exported = tensor.to_dlpack(stream);
    Tensor imported = from_dlpack(exported.release(), stream);
    imported.buffer().fill(std::byte{2}, stream);
    imported.buffer().close(stream);
  }
  {
    ManagedTensor exported = tensor.to_dlpack(stream);
    const Tensor imported = from_dlpack(exported.release_legacy(), stream);
  }
  { const ManagedTensor nobody_takes_it = tensor.to_dlpack(stream); }
  buffer.close();
  stream.synchronize();
}

std::pair<spi::UniqueFd, spi::UniqueFd> sockets() {
  int ends[2];
  // Not through the library: it is not the scenario's call that may fail.
  require(::syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  return {spi::UniqueFd(ends[0]), spi::UniqueFd(ends[1])};
}

Buffer pass_on(const Buffer& buffer, const Stream& stream) {
  const auto [mine, theirs] = sockets();
  ipc::send(mine.get(), buffer.ipc_descriptor(stream));
  return ipc::open(ipc::receive(theirs.get(), std::chrono::seconds{20}), stream);
}

void pass_descriptors(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.shareable->allocate(small, stream);
  buffer.fill(std::byte{1}, stream);
  stream.synchronize();
  Buffer same = pass_on(buffer, stream);
  same.fill(std::byte{6}, stream);
  require(lands(buffer, stream, 6), "bytes written through the other mapping");
  same.close();
  buffer.close();
}

void pass_descriptors_early(const Stage& stage) {
  Hold hold;
  const Stream writer(stage.device);
  const Stream reader(stage.device);
  Buffer buffer = stage.shareable->allocate(small, writer);
  writer.wait(hold.event());
  buffer.fill(std::byte{3}, writer);
  const auto [mine, theirs] = sockets();
  ipc::send(mine.get(), buffer.ipc_descriptor(writer));
  const Buffer same = ipc::open(ipc::receive(theirs.get(), std::chrono::seconds{20}), reader);
  buffer.close();
  hold.open();
  require(lands(same, reader, 3), "bytes after the exporter's point");
}

// From a pool, which keeps the memory for as long as there is a lease.
void pass_leases(const Stage& stage) {
  const Stream stream(stage.device);
  const PoolPtr pool = make_pool(stage.shareable, {.exportable = true});
  Buffer buffer = pool->allocate(small, stream);
  buffer.fill(std::byte{1}, stream);
  stream.synchronize();
  Buffer same = pass_on(buffer, stream);
  buffer.close();
  Buffer another = pool->allocate(small, stream);
  another.fill(std::byte{2}, stream);
  require(lands(same, stream, 1), "bytes of memory that was not given out again");
  same.close();
  stream.synchronize();
  pool->trim(0);  // the lease has ended, and the next run finds nothing on its way
}

void borrow_memory(const Stage& stage) {
  const Stream stream(stage.device);
  const auto released = std::make_shared<std::atomic<int>>(0);
  Buffer owner = stage.readable->allocate(small, stream);
  {
    Buffer borrowed = Buffer::from_handle(
        stage.device, owner.device_address(), small, [released] { ++*released; }, stream);
    borrowed.fill(std::byte{1}, stream);
    borrowed.close();
  }
  stream.synchronize();
  detail::drain_releases(stage.device.state());  // the release may be the library's thread's
  require(*released == 1, "release of borrowed memory");
}

void trim(const Stage& stage) {
  const Stream stream(stage.device);
  const auto before = stage.plain->stats().reserved;
  Buffer a = stage.plain->allocate(small, stream);
  Buffer b = stage.plain->allocate(small, stream);
  a.fill(std::byte{1}, stream);
  a.close();
  b.close(stream);
  stream.synchronize();  // a driver's pool gives back what the host has seen free
  (void)stage.plain->trim(0);
  (void)stage.plain->trim(0);  // what the first was refused
  require(stage.plain->stats().reserved <= before, "reserved after trim");
}

void drop_everything_else(const Stage& stage) {
  Buffer last;
  {
    const auto resource = make_resource(stage.device, stage.readable->kind());
    const Stream stream(stage.device);
    last = resource->allocate(small, stream);
    last.fill(std::byte{1}, stream);
  }
  const Stream stream(stage.device);
  last.order_after_uses(stream);
  require(lands(last, stream, 1), "bytes after the stream's end");
}

// Each at work: a refusal that a function spills for, a scope, closed memory that is looked at.
// A pool that grows twice, with memory that goes from one stream to another.
void sub_allocate(const Stage& stage) {
  const Stream stream(stage.device), other(stage.device);
  const auto pool = make_pool(stage.plain, {.segment_bytes = 4 * small});
  Buffer first = pool->allocate(small, stream);
  first.fill(std::byte{1}, stream);
  Buffer second = pool->allocate(8 * small, stream);
  second.slice(0, small).copy_from(first, stream);
  first.close(other);
  require(lands(second, stream, 1), "bytes of a pool");
  second.close();
  Buffer third = pool->allocate(2 * small, other);
  third.fill(std::byte{2}, other);
  require(lands(third, other, 2), "bytes of another stream's memory");
  third.close();
  (void)pool->trim(0);
}

void adapt(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer spilled;
  const auto lower =
      make_tracking(make_aligned(make_debug(stage.plain), 4096), {.stack_depth = 4, .report_leaks = false});
  const auto upper = make_failure_callback(make_limiting(lower, 3 * small), [&](const AllocationFailure&) {
    const bool helps = !spilled.is_closed();
    spilled.close();
    return helps;
  });
  const auto counted = make_statistics(upper);
  const StatisticsScope scope(counted);
  spilled = counted->allocate(2 * small, stream);
  Buffer buffer = counted->allocate(2 * small, stream);
  require(spilled.is_closed() && lower->outstanding().size() == 1, "spilling");
  buffer.fill(std::byte{1}, stream);
  require(lands(buffer, stream, 1), "bytes of an adapted buffer");
  require(!counted->try_allocate(4 * small, stream), "more than the limit");
  buffer.close();
  (void)counted->trim(0);
  require(scope.statistics().buffers.total == 2 && scope.statistics().bytes.current == 0, "statistics");
}

std::optional<Lack> takes_no_addresses(const Stage& stage) {
  if (stage.device.backend() != "vulkan") return {};  // vulkan::wrap takes buffers
  return no_vulkan_addresses;
}

void fill_containers(const Stage& stage) {
  PmrResource memory(make_pool(stage.readable, {.segment_bytes = 4 * small}));
  const std::pmr::vector<int> numbers(small, 7, &memory);
  std::pmr::list<int> more(&memory);
  for (int i = 0; i < 3; ++i) more.push_back(i);
  require(numbers.back() == 7 && more.back() == 2, "containers");
}

// Memory of the plain resource, by its address.
void lend(const Stage& stage) {
  struct Lent {
    explicit Lent(const Stage& on) : plain(on.plain), stream(on.device) {}
    ResourcePtr plain;
    Stream stream;
    BufferTable buffers;
  };
  const auto lent = std::make_shared<Lent>(stage);
  const auto resource = make_callback_resource(
      stage.device, {.allocate =
                         [lent](std::size_t bytes, const Stream& user) {
                           Buffer buffer = lent->plain->allocate(bytes, lent->stream);
                           user.wait(lent->stream.record());
                           auto* const address =
                               reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer.device_address()));
                           lent->buffers.insert(address, std::move(buffer));
                           return address;
                         },
                     .deallocate = [lent](void* address, std::size_t) { lent->buffers.take(address).close(); }});
  const Stream stream(stage.device);
  Buffer buffer = resource->allocate(small, stream, 1024);
  buffer.fill(std::byte{1}, stream);
  require(lands(buffer, stream, 1), "bytes of lent memory");
}

constexpr Scenario core[] = {
    {"allocate_every_kind", &allocate_every_kind},
    {"allocate_shareable", &allocate_shareable, &shares_nothing},
    {"allocate_nothing", &allocate_nothing},
    {"exhaust", &exhaust},
    {"fill", &fill},
    {"fill_many", &fill_many},
    {"copy_on_device", &copy_on_device},
    {"copy_through_host", &copy_through_host},
    {"copy_on_a_host_stream", &copy_on_a_host_stream},
    {"copy_regions", &copy_regions},
    {"fill_elements", &fill_elements},
    {"mirror", &mirror},
    {"grow", &grow},
    {"spans", &spans},
    {"share_and_slice", &share_and_slice},
    {"close_elsewhere", &close_elsewhere},
    {"order_streams", &order_streams},
    {"wait_with_limits", &wait_with_limits},
    {"call", &call},
    {"make_streams", &make_streams},
    {"exchange_tensors", &exchange_tensors},
    {"pass_descriptors", &pass_descriptors, &shares_nothing},
    {"pass_descriptors_early", &pass_descriptors_early, &shares_nothing},
    {"pass_leases", &pass_leases, &shares_nothing},
    {"borrow_memory", &borrow_memory, &takes_no_addresses},
    {"trim", &trim},
    {"sub_allocate", &sub_allocate},
    {"adapt", &adapt},
    {"fill_containers", &fill_containers},
    {"lend", &lend, &takes_no_addresses},
    {"drop_everything_else", &drop_everything_else},
};

ResourcePtr shareable_of(const Device& device) {
  for (const KindInfo& info : device.kinds()) {
    if (info.exportable) return make_resource(device, info.kind, {.exportable = true});
  }
  return nullptr;
}

}  // namespace

Stage::Stage(const Device& on)
    : device(on),
      plain(make_resource(on)),
      readable(make_resource(on, on.state().staging_kind)),
      shareable(shareable_of(on)) {
  constexpr int most_queues = 4;
  for (int i = 0; i < most_queues; ++i) {  // drivers start threads of their own on first use
    const Stream stream(on);
    plain->allocate(small, stream).fill(std::byte{1}, stream);
    stream.synchronize();
  }
}

std::span<const Scenario> scenarios() { return core; }

bool lands(const Buffer& buffer, const Stream& stream, unsigned char value) {
  // Work that a failure left behind may still write where it was to land, so the next one lands elsewhere.
  static std::array<std::array<std::byte, small>, 64> landings;
  static std::size_t next = 0;
  std::array<std::byte, small>& landing = landings[next++ % landings.size()];
  landing.fill(std::byte{0});
  const auto bytes = std::min(buffer.size(), landing.size());
  buffer.copy_to(std::span(landing).first(bytes), stream);
  stream.synchronize();
  return std::all_of(landing.begin(), landing.begin() + static_cast<std::ptrdiff_t>(bytes),
                     [&](std::byte b) { return b == std::byte{value}; });
}

std::optional<Lack> shares_nothing(const Stage& stage) {
  if (stage.shareable) return {};
  return Lack{Lasting::this_machine, "its driver shares no memory with other processes"};
}

}  // namespace weir::test
