// SPDX-License-Identifier: Apache-2.0
// cuda_trap_child: a kernel that traps, on a stream that weir knows. After that whatever is called comes back, lost,
// and the process ends as others do. Says "failed <what>" for each thing that goes wrong, "answer <call> <code>" for
// what the driver says from then on, and at last "done".
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../native.hpp"
#include "sink.hpp"
#include "spawn.hpp"
#include "weir/buffer.hpp"
#include "weir/channel.hpp"
#include "weir/current_resource.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

constexpr char trap_source[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry weir_trap()
{
  trap;
  ret;
}
)";
constexpr unsigned patience_seconds = 45;

void say(const std::string& line) { test::write_line(test::Child::socket_in_child, line); }

const char* volatile step = "the beginning";

void at(const char* what) { step = what; }

// Only what a signal handler may do.
void tell_where_it_hangs(int) {
  const char* const words[] = {"failed hangs at: ", step, "\n"};
  for (const char* word : words) {
    if (write(test::Child::socket_in_child, word, std::strlen(word)) < 0) break;
  }
  _exit(3);
}

void expect(bool holds, const std::string& what) {
  if (!holds) say("failed " + std::string(step) + ": " + what);
}

/// Comes back with that error.
void expect_error(Errc code, const char* what, const std::function<void()>& call) {
  at(what);
  try {
    call();
    expect(false, "nothing was thrown");
  } catch (const Error& error) {
    expect(error.code() == code, error.what());
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
}

void expect_lost(const char* what, const std::function<void()>& call) { expect_error(Errc::device_lost, what, call); }

void launch_trap(CUstream stream) {
  const Current current(primary());
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  expect(api().ModuleLoadData(&module, trap_source) == CUDA_SUCCESS, "cuModuleLoadData");
  expect(api().ModuleGetFunction(&kernel, module, "weir_trap") == CUDA_SUCCESS, "cuModuleGetFunction");
  expect(api().LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) == CUDA_SUCCESS, "cuLaunchKernel");
}

struct Held {
  ResourcePtr resource;
  std::vector<Buffer> buffers;
};

std::vector<Held> everything(const Device& gpu) {
  std::vector<Held> all;
  for (const KindInfo& info : gpu.kinds()) all.push_back({make_resource(gpu, info.kind), {}});
  all.push_back({cuda::make_async_resource(gpu), {}});
  all.push_back({cuda::make_vmm_resource(gpu, {.exportable = true}), {}});
  all.push_back({make_pool(gpu), {}});
  all.push_back({make_pool(cuda::make_device_resource(gpu)), {}});
  return all;
}

void tell_answers(CUstream native) {
  at("what the driver answers");
  const auto tell = [](const char* call, CUresult result) {
    say("answer " + std::string(call) + " " + std::to_string(static_cast<int>(result)));
  };
  CUdeviceptr address = 0;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  CUdeviceptr reserved = 0;
  tell("cuCtxSetCurrent", api().CtxSetCurrent(primary()));
  tell("cuCtxGetCurrent", api().CtxGetCurrent(&context));
  tell("cuStreamGetCtx", api().StreamGetCtx(native, &context));
  tell("cuStreamQuery", api().StreamQuery(native));
  tell("cuStreamSynchronize", api().StreamSynchronize(native));
  tell("cuStreamCreate", api().StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  tell("cuEventCreate", api().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  tell("cuMemAlloc", api().MemAlloc(&address, 4096));
  tell("cuMemAddressReserve", api().MemAddressReserve(&reserved, std::size_t{2} << 20U, 0, 0, 0));
}

int run() {
  const Device gpu = cuda::device(0);
  auto all = everything(gpu);
  static const NativeStream& native = *new NativeStream;  // which cannot be ended afterwards
  const Stream own(gpu), borrowed = cuda::borrow(gpu, native.get()), host(host_device());
  for (Held& each : all) {
    for (const Stream* stream : {&own, &borrowed, &own}) {
      each.buffers.push_back(each.resource->allocate(5000, *stream));
      each.buffers.back().fill(std::uint8_t{1}, *stream);
    }
  }
  own.synchronize();
  borrowed.synchronize();

  auto [one, other] = ipc::Channel::make_sockets();
  ipc::Channel here(std::move(one)), there(std::move(other));
  const Buffer shared = cuda::make_vmm_resource(gpu, {.exportable = true})->allocate(5000, own);
  here.send(shared, own);
  { const Buffer opened = there.receive(host).buffer; }  // which a device that has stopped would refuse
  bool sent = false;

  at("the launch");
  launch_trap(cuda::native(own));
  auto promise = std::make_shared<std::promise<void>>();
  auto called = promise->get_future();
  std::optional<Event> last;
  bool host_waits = false;
  // The device may have stopped before any of this is put.
  try {
    here.send(shared, own);
    sent = true;
    own.call([promise = std::move(promise)] { promise->set_value(); });
    for (Held& each : all) each.buffers[0].fill(std::uint8_t{2}, own);
    last = own.record();
    host.wait(*last);
    host_waits = true;
    borrowed.wait(*last);
  } catch (const Error& error) {
    expect(error.code() == Errc::device_lost, error.what());
  }
  promise = nullptr;

  expect_lost("Stream::synchronize of its stream", [&] { own.synchronize(); });
  expect_lost("Stream::synchronize with a limit", [&] { (void)own.synchronize(30s); });
  expect_lost("Stream::synchronize of another stream", [&] { borrowed.synchronize(); });
  if (last) {
    at("Event::wait");
    expect(last->wait(-1ns) == WaitStatus::lost, "it is not lost");
  }
  if (host_waits) {
    expect_lost("Stream::synchronize of a stream of the host that waits for it", [&] { host.synchronize(); });
  }
  if (sent) {
    expect_error(Errc::peer_gone, "a peer's stream that waits for what was sent", [&] {
      const Stream waiting(host_device());
      const Buffer received = there.receive(waiting).buffer;
      waiting.synchronize();
    });
  }
  at("the end of what a host function owns");
  try {
    called.get();
    expect(false, "it was called");
  } catch (const std::future_error&) {
  }
  expect_lost("making a stream", [&] { const Stream another(gpu); });
  expect_lost("Stream::record", [&] { (void)own.record(); });
  for (Held& each : all) {
    const auto allocate = [&] { (void)each.resource->allocate(std::size_t{64} << 20U, own); };
    if (each.resource->kind() == MemoryKind::vmm) {
      // Mapping names no stream and no context: whether the driver still does it is its own matter.
      try {
        at("allocating");
        allocate();
        say("answer allocate:" + each.resource->name() + " 0");
      } catch (const Error& error) {
        expect(error.code() == Errc::device_lost, error.what());
      }
    } else {
      expect_lost("allocating", allocate);
    }
    expect_lost("filling", [&] { each.buffers[0].fill(std::uint8_t{3}, borrowed); });
    std::byte byte{};
    expect_lost("reading", [&] { each.buffers[0].copy_to(std::span<std::byte>(&byte, 1), own); });
  }
  tell_answers(native.get());
  for (Held& each : all) {
    at("Buffer::close");
    each.buffers[0].close();
    each.buffers[1].close(borrowed);
    each.buffers.clear();
    at("MemoryResource::trim");
    (void)each.resource->trim(0);
    const ResourceStats stats = each.resource->stats();
    expect(stats.live_buffers == 0 && stats.in_use == 0, each.resource->name() + " counts what was closed");
  }
  at("the end of the resources");
  all.clear();
  for (const auto& report : test::take_reports()) say("report " + report.where + ": " + report.message);
  return 0;
}

}  // namespace
}  // namespace weir::cuda_test

int main() {
  using namespace weir::cuda_test;
  signal(SIGALRM, &tell_where_it_hangs);
  alarm(patience_seconds);
  weir::test::install_sink();
  try {
    run();
  } catch (const std::exception& error) {
    say("failed " + std::string(step) + ": " + error.what());
  }
  at("the end of the process");
  say("done");
  return 0;
}
