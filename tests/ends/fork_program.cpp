// SPDX-License-Identifier: Apache-2.0
// Forks with live host objects: fork_program <case> host:0.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <latch>
#include <list>
#include <optional>
#include <thread>

#include "base/file_closer.hpp"
#include "busy_pipe.hpp"
#include "fds.hpp"
#include "forking.hpp"
#include "weir/callback_resource.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

constexpr std::byte before{1}, after{2}, later{3};

/// A host stream held back by a byte that this process sends, as another process would: neither it nor a fork of it
/// runs a function meanwhile.
class Held {
 public:
  Held() {
    Buffer buffer = make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(small, exporter_);
    exporter_.wait(latch_.event);
    memory_ = ipc::open(buffer.ipc_descriptor(exporter_), stream);
  }
  /// In this process only; what it sends arrives in all.
  void let_go() { latch_.open(); }

  Stream stream{host_device()};

 private:
  Latch latch_;
  Stream exporter_{host_device()};
  Buffer memory_;
};

void idle_objects() {
  const Device device = host_device();
  const Stream stream(device);
  bool called = false;
  stream.call([&] { called = true; });  // its worker waits for more while we fork
  stream.synchronize();
  std::vector<Buffer> buffers;
  std::vector<ManagedTensor> tensors;
  const auto resources = resources_of(device);
  for (const ResourcePtr& resource : resources) {
    buffers.push_back(resource->allocate(small, stream));
    buffers.back().fill(before, stream);
    tensors.push_back(buffers.back().view(u8, {small}).to_dlpack(stream));
  }
  stream.synchronize();
  in_child([&] {
    for (const Buffer& buffer : buffers) require(holds(buffer, before), "the child sees the bytes");
    for (Buffer& buffer : buffers) {
      buffer.fill(after, stream);
      Buffer copy = buffer.copy_to(stream);
      stream.synchronize();
      require(holds(copy, after) && copy.memory_resource() == buffer.memory_resource(), "the child copies");
      buffer.close(stream);
    }
    called = false;
    stream.call([&] { called = true; });
    stream.synchronize();
    require(called, "functions run in the child");
    tensors.clear();
    for (const ResourcePtr& resource : resources) {
      resource->trim(0);
      require(resource->stats().reserved == 0, "everything goes back in the child");
    }
    use_host();
  });
  for (const Buffer& buffer : buffers) {
    const bool shared = buffer.kind() == MemoryKind::shared;
    require(holds(buffer, shared ? after : before), "memfd memory is shared with the child, other memory is not");
  }
  use_host();
}

void held_work_goes_on() {
  Held held;
  const auto resource = make_resource(host_device());
  Buffer from = resource->allocate(small, held.stream), to = resource->allocate(small, held.stream);
  std::vector<std::byte> bytes(small);
  int runs = 0;
  from.fill(before, held.stream);
  to.copy_from(from, held.stream);
  held.stream.call([&] { ++runs; });
  to.copy_to(std::span(bytes), held.stream);
  from.fill(after, held.stream);
  from.close();
  to.close();
  const Stream other(host_device());
  other.wait(held.stream.record());
  const pid_t child = fork_child([&] {
    require(resource->stats().reserved != 0 && runs == 0, "held work waits in the child until somebody asks");
    Buffer more = resource->allocate(small, other);
    more.fill(later, other);
    other.synchronize();  // comes after the held stream, whose worker must come back for it
    require(runs == 1 && bytes[small - 1] == before && holds(more, later), "held work is done in the child, once");
    more.close();
    resource->trim(0);
    require(resource->stats().reserved == 0, "memory of held work goes back in the child");
    use_host();
  });
  held.let_go();
  join_child(child);
  other.synchronize();
  require(runs == 1 && bytes[small - 1] == before, "held work is done in the parent, once");
  resource->trim(0);
  require(resource->stats().reserved == 0, "memory of held work goes back in the parent");
}

void dropped_streams_go_on() {
  const auto resource = make_resource(host_device());
  Held held;
  {
    const Stream dropped(host_device());
    Buffer buffer = resource->allocate(small, dropped);
    dropped.wait(held.stream.record());
    buffer.fill(before, dropped);
  }
  const pid_t child = fork_child([&] {
    resource->trim(0);  // waits for a stream that nobody names any more
    require(resource->stats().reserved == 0, "memory of a dropped stream goes back in the child");
  });
  held.let_go();
  join_child(child);
  resource->trim(0);
  require(resource->stats().reserved == 0, "and in the parent");
}

void function_under_way() {
  Latch latch;
  std::latch begun(1);
  const Stream stream(host_device()), behind(host_device());
  std::promise<void> done;
  stream.wait(latch.event);
  const auto resource = make_resource(host_device());
  Buffer buffer = resource->allocate(small, stream);
  buffer.fill(before, stream);
  behind.wait(stream.record());
  // The latch's function runs when this one has: both are on workers.
  const Stream busy(host_device());
  busy.call([&, end = done.get_future().share()] {
    begun.count_down();
    end.wait();
  });
  const Event of_busy = busy.record();
  begun.wait();
  const Event of_behind = behind.record();
  in_child([&] {
    set_failure_sink([](const Failure& failure) noexcept {
      require(failure.message.find("fork") != std::string_view::npos, "the sink is told why");
    });
    require(of_busy.wait(std::chrono::seconds{10}) == WaitStatus::lost,
            "half a function is not waited for in the child");
    const auto refused = [&](const Stream& lost) {
      require_error("a stream in the middle of a host function", Errc::device_lost, "fork",
                    [&] { (void)lost.record(); });
    };
    refused(busy);
    const Stream waits(host_device());
    require_error("waiting for it", Errc::device_lost, "fork", [&] { waits.wait(of_busy); });
    require(of_behind.wait(std::chrono::seconds{10}) == WaitStatus::lost, "what waits for it is lost as well");
    buffer.close();
    resource->trim(0);
    require(resource->stats().reserved == 0, "memory behind it goes back");
    use_host();
  });
  done.set_value();
  latch.open();
  behind.synchronize();
  busy.synchronize();
  require(holds(buffer, before), "the parent goes on");
}

// The only thread of the child is the stream's worker.
void fork_in_a_host_function() {
  const Stream stream(host_device());
  pid_t child = -1;
  std::latch queued(1);
  stream.call([&] {
    queued.wait();
    child = fork();
  });
  stream.call([&] {
    if (child != 0) return;
    alarm(20);
    use_host();
    _exit(7);
  });
  queued.count_down();
  stream.synchronize();
  int status = 0;
  require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7,
          "the worker goes on in the child");
}

// In the child the stream gets to the end of the parent's work without having done it.
void exports_stay_the_parents() {
  const pid_t parent = getpid();
  std::promise<void> done;
  Held held;
  Buffer buffer = make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(small, held.stream);
  held.stream.call([parent, end = done.get_future().share()] {
    if (getpid() == parent) end.wait();
  });
  const Stream importer(host_device());
  const Buffer opened = ipc::open(buffer.ipc_descriptor(held.stream), importer);
  const pid_t child = fork_child([&] { held.stream.synchronize(); });
  held.let_go();
  join_child(child);
  require(importer.synchronize(std::chrono::milliseconds{200}) == WaitStatus::timeout,
          "the importer waits for the parent's work");
  done.set_value();
  importer.synchronize();
}

void grandchildren() {
  const Stream stream(host_device());
  Held held;
  const auto resource = make_resource(host_device());
  Buffer buffer = resource->allocate(small, stream);
  Buffer behind = resource->allocate(small, held.stream);
  behind.fill(after, held.stream);
  const pid_t child = fork_child([&] {
    buffer.fill(before, stream);
    stream.synchronize();
    in_child([&] {
      require(holds(buffer, before), "the grandchild sees what the child wrote");
      buffer.fill(after, stream);
      stream.synchronize();
      held.stream.synchronize();
      require(holds(behind, after), "held work is done in the grandchild");
      use_host();
    });
    require(holds(buffer, before), "the child does not see what the grandchild wrote");
    held.stream.synchronize();
    require(holds(behind, after), "held work is done in the child");
  });
  held.let_go();
  join_child(child);
}

void current_resource_goes_on() {
  const Stream stream(host_device());
  const ResourcePtr pool = current_resource(host_device());
  Buffer buffer = pool->allocate(small, stream);
  buffer.fill(before, stream);
  stream.synchronize();
  in_child([&] {
    require(current_resource(host_device()) == pool, "the child has the parent's");
    Buffer more = current_resource(host_device())->allocate(small, stream);
    more.copy_from(buffer, stream);
    stream.synchronize();
    require(holds(more, before), "it works in the child");
    require(set_current_resource(host_device(), make_resource(host_device())) == pool, "the child takes another");
  });
  require(current_resource(host_device()) == pool, "the parent keeps its own");
}

// The thread that gives memory back does not exist in the child, which gives back what is closed there.
void release_under_way() {
  std::atomic<bool> inside = false, opened = false;
  CallbackOptions options;
  options.allocate = [](std::size_t bytes, const Stream&) { return std::aligned_alloc(default_alignment, bytes); };
  options.deallocate = [&](void* address, std::size_t) {
    inside = true;
    while (!opened) std::this_thread::yield();
    std::free(address);
  };
  const auto pool = make_pool(make_callback_resource(host_device(), options), {.release_threshold = 0});
  const auto come_and_go = [&] { pool->allocate(small, Stream(host_device())).close(); };
  std::thread gives(come_and_go);
  while (!inside) std::this_thread::yield();
  in_child([&] {
    opened = true;
    come_and_go();
    require(pool->stats().reserved == 0, "memory that is closed in the child goes back there");
  });
  opened = true;
  gives.join();
}

/// Whether `pool`, which has room for one buffer of so many bytes, has it.
bool is_back(const PoolPtr& pool, const Stream& stream, std::size_t bytes) {
  return pool->try_allocate(bytes, stream).has_value();
}

// A child has copies of all files, also of leases that were never meant for it.
void leases_count_children() {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  constexpr std::chrono::milliseconds patience{100};  // of a fork with files that are being closed
  const Stream stream(host_device());
  const PoolPtr pool =
      make_pool(host_device(),
                {.limit = bytes, .segment_bytes = bytes, .patience = std::chrono::milliseconds{1}, .exportable = true});
  int ends[2];
  std::optional<ipc::Descriptor> descriptor = pool->allocate(bytes, stream).ipc_descriptor(stream);
  require(pipe2(ends, O_CLOEXEC) == 0, "a pipe");
  pid_t child = fork_child([&] {
    close(ends[1]);
    char byte;
    (void)!read(ends[0], &byte, 1);
  });
  descriptor.reset();
  require(!is_back(pool, stream, bytes), "a child that was made while there was a descriptor has it");
  close(ends[1]);
  join_child(child);
  while (!is_back(pool, stream, bytes)) {
  }
  close(ends[0]);
  for (int i = 0; i < 100; ++i) {
    const auto begin = std::chrono::steady_clock::now();  // before the closing that is waited for
    (void)pool->allocate(bytes, stream).ipc_descriptor(stream);
    require(pipe2(ends, O_CLOEXEC) == 0, "a pipe");
    child = fork_child([&] {
      close(ends[1]);
      char byte;
      (void)!read(ends[0], &byte, 1);
    });
    const bool waited = std::chrono::steady_clock::now() - begin < patience;  // and not given up
    require(is_back(pool, stream, bytes) || !waited, "a child that was made after its end has none");
    close(ends[1]);
    join_child(child);
    close(ends[0]);
  }
}

// Those that block stay the parent's; the child closes its own, and its copies of those that wait.
void files_of_strangers() {
  set_failure_sink([](const Failure&) noexcept {});  // it is told of the files that wait
  constexpr std::size_t threads = 8;
  std::list<BlockingFile> blocking(threads);
  for (BlockingFile& file : blocking) detail::close_apart(file.take());
  detail::settle_closes();
  spi::UniqueFd waits = pipe_pair().second;
  const int number = waits.get();
  detail::close_apart(std::move(waits));
  in_child([&] {
    require(detail::files_to_close() == 1, "what is stuck is none of the child's");
    auto [reads, writes] = pipe_pair();
    detail::close_apart(std::move(writes));
    pollfd entry{reads.get(), 0, 0};
    require(poll(&entry, 1, -1) == 1, "the child closes files");
    require(fcntl(number, F_GETFD) == -1, "and first what waited");
  });
  require(detail::files_to_close() == threads + 1, "the parent's are stuck");
  blocking.clear();
  settle_files();
}

void child_that_exits() {
  static Things things(host_device());
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    use_host();
    things.work();
    std::exit(0);  // with all handlers and static objects
  }
  join_child(child);
}

constexpr Case cases[] = {{"idle_objects", idle_objects},
                          {"held_work_goes_on", held_work_goes_on},
                          {"dropped_streams_go_on", dropped_streams_go_on},
                          {"function_under_way", function_under_way},
                          {"fork_in_a_host_function", fork_in_a_host_function},
                          {"exports_stay_the_parents", exports_stay_the_parents},
                          {"grandchildren", grandchildren},
                          {"current_resource_goes_on", current_resource_goes_on},
                          {"release_under_way", release_under_way},
                          {"leases_count_children", leases_count_children},
                          {"files_of_strangers", files_of_strangers},
                          {"child_that_exits", child_that_exits}};

}  // namespace
}  // namespace weir::test

int main(int count, char** arguments) { return weir::test::run_case(weir::test::cases, count, arguments); }
