// SPDX-License-Identifier: Apache-2.0
// Forks often while other threads are inside every lock of the library: fork_threads_program <times> <device>. It
// forks less often where each fork takes long.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <list>
#include <new>
#include <thread>

#include "forking.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/adaptors/statistics.hpp"
#include "weir/adaptors/tracking.hpp"
#include "weir/callback_resource.hpp"
#include "weir/interop/pmr.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

constexpr std::byte constant{0x5a};

/// What the threads use and the children find.
struct Shared {
  ResourcePtr pageable = make_resource(host_device());
  ResourcePtr memfd = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  ResourcePtr adapted = make_statistics(make_tracking(make_limiting(make_debug(pageable), 1 << 20)));
  Stream busy{host_device()};   // many threads put work on it
  Stream other{host_device()};
  Buffer used = pageable->allocate(small, busy);    // recorded without a pause
  Buffer read = memfd->allocate(small, busy);       // its bytes never change
  Buffer for_device = pageable->allocate(small, busy);  // the device's use of it does not end in a child
  PmrResource for_containers{make_pool(pageable)};
  PoolPtr older = make_pool(pageable), newer = make_pool(pageable);
  Stream quiet{host_device()};  // of these pools alone
  ResourcePtr lent = make_callback_resource(
      host_device(), {.allocate = [](std::size_t bytes,
                                     const Stream&) { return ::operator new(bytes, std::align_val_t{256}); },
                      .deallocate = [](void* address,
                                       std::size_t) { ::operator delete(address, std::align_val_t{256}); }});
  std::atomic<bool> go{false};
};

using Round = void (*)(Shared&, const Device&);

void allocate(Shared& shared, const Device&) { (void)shared.pageable->allocate(256, shared.busy); }
void adapt(Shared& shared, const Device&) {
  Buffer buffer = shared.adapted->allocate(256, shared.other);
  const ResourcePtr handle = buffer.memory_resource();
  (void)handle->stats();
  buffer.fill(constant, shared.other);
}
void exchange_current(Shared& shared, const Device& device) {
  set_current_resource(host_device(), shared.adapted);
  (void)current_resource(host_device())->allocate(256, shared.other);
  set_current_resource(host_device(), nullptr);
  (void)current_resource(device);
  for (int i = 0; i < 1000; ++i) (void)current_resource(host_device());
}
void borrow(Shared& shared, const Device&) {
  for (int i = 0; i < 1000; ++i) (void)shared.lent->stats();
  (void)shared.lent->allocate(256, shared.other);
}
void use_containers(Shared& shared, const Device&) {
  for (int i = 0; i < 3000; ++i) (void)std::pmr::vector<int>(1, i, &shared.for_containers);
}
void grow_pools(Shared& shared, const Device&) {
  for (const PoolPtr& pool : {shared.older, shared.newer}) {
    pool->allocate(small, shared.quiet).close();
    (void)pool->trim(0);
  }
}
void record_uses(Shared& shared, const Device&) { shared.used.use_on(shared.other); }
void put(Shared& shared, const Device&) {
  shared.busy.wait(shared.other.record());
  shared.used.fill(std::byte{1}, 0, 64, shared.busy);
}
void copy(Shared& shared, const Device&) {
  Buffer copied = shared.read.copy_to(shared.other);
  shared.used.copy_from(copied, shared.busy);
}
void hold_back(Shared& shared, const Device&) {
  const Stream stream(host_device()), behind(host_device());
  Buffer buffer = shared.pageable->allocate(256, behind);
  stream.call([] {});
  behind.wait(stream.record());
  buffer.fill(constant, behind);
  buffer.close();
}
void make_and_drop(Shared&, const Device& device) {
  const auto resource = make_resource(host_device());
  (void)resource->allocate(64, Stream(device));
}
void share(Shared& shared, const Device&) {
  const Stream stream(host_device());
  Buffer opened = ipc::open(shared.read.ipc_descriptor(stream), stream);
  if (opened.host_data()[0] != constant) std::abort();
  stream.synchronize();  // its ready point is a file until then
}
void use_device(Shared& shared, const Device& device) {
  const Stream stream(device);
  Buffer buffer = make_resource(device)->allocate(small, stream);
  buffer.copy_from(shared.for_device, stream);
  buffer.fill(constant, stream);
  stream.wait(shared.other.record());
  stream.synchronize();
}

void use_in_child(Shared& shared) {
  for (Stream* stream : {&shared.busy, &shared.other}) {
    Buffer buffer = shared.pageable->allocate(256, *stream);
    buffer.fill(constant, *stream);
    stream->synchronize();
    require(holds(buffer, constant), "streams that others were using work in the child");
  }
  Buffer adapted = shared.adapted->allocate(256, shared.other);
  adapted.fill(constant, shared.other);
  shared.other.synchronize();
  require(holds(adapted, constant), "adaptors that others were using work in the child");
  adapted.close();
  Buffer current = current_resource(host_device())->allocate(256, shared.busy);
  set_current_resource(host_device(), shared.pageable);
  require(current_resource(host_device()) == shared.pageable, "the current resource can be exchanged in the child");
  current.close();
  (void)shared.lent->allocate(256, shared.busy);
  std::pmr::list<int> numbers(&shared.for_containers);
  for (int i = 0; i < 200; ++i) numbers.push_back(i);
  require(numbers.back() == 199, "containers can be filled in the child");
  for (const PoolPtr& pool : {shared.older, shared.newer}) {
    const Buffer buffer = pool->allocate(small, shared.quiet);
    require(pool->stats().live_buffers != 0, "pools that others were growing work in the child");
  }
  require(holds(shared.read, constant), "bytes are whole");
  shared.used.use_on(shared.other);
  shared.used.fill(constant, shared.other);
  shared.other.synchronize();
  require(holds(shared.used, constant), "memory that others were using works in the child");
  shared.used.close();
  (void)shared.read.ipc_descriptor(shared.busy);
  shared.pageable->trim(0);
  const auto resource = make_resource(host_device());
  const Stream fresh(host_device());
  Buffer last = resource->allocate(small, fresh);
  last.copy_from(shared.read, fresh);
  bool called = false;
  fresh.call([&] { called = true; });
  fresh.synchronize();
  require(called && holds(last, constant), "new objects work in the child");
  last.close();
  resource->trim(0);
  require(resource->stats().reserved == 0, "memory goes back in the child");
}

void fork_often(int times, const Device& device) {
  auto& shared = *new Shared;  // leaked: the threads never end
  shared.read.fill(constant, shared.busy);
  shared.busy.synchronize();
  std::vector<Round> rounds{allocate, adapt, exchange_current, use_containers, grow_pools, borrow, record_uses, put, copy, hold_back, make_and_drop, share};
  if (device.backend() != "host") rounds.push_back(use_device);
  std::vector<std::atomic<std::uint64_t>*> counts;
  for (const Round round : rounds) {
    auto& count = *counts.emplace_back(new std::atomic<std::uint64_t>{0});
    std::thread([&shared, &count, device, round] {
      for (;;) {
        shared.go.wait(false);
        round(shared, device);
        if (count.load() % 16 == 0) shared.busy.synchronize();  // the faster the machine, the longer its queue
        count.fetch_add(1);
        count.notify_one();
      }
    }).detach();
  }
  // Beside many other programs a fork takes a second. Whatever hangs does so at any speed: a few forks are enough then.
  constexpr int few = 3;
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{15};
  for (int i = 0; i < times && (i < few || std::chrono::steady_clock::now() < enough); ++i) {
    std::vector<std::uint64_t> seen;
    for (auto* count : counts) seen.push_back(count->load());
    shared.go = true;
    shared.go.notify_all();
    for (std::size_t k = 0; k < counts.size(); ++k) counts[k]->wait(seen[k]);  // nobody hangs in the parent
    const pid_t child = fork_child([&] { use_in_child(shared); });
    shared.go = false;
    join_child(child);
  }
}

}  // namespace
}  // namespace weir::test

int main(int count, char** arguments) {
  using namespace weir::test;
  if (count != 3) return 2;
  fork_often(std::atoi(arguments[1]), device_named(arguments[2]));
  say_done();
  return 0;
}
