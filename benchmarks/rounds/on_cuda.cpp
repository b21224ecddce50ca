// SPDX-License-Identifier: Apache-2.0
// rounds/kernels: a kernel of a microsecond on a stream of this process, behind it one on a stream of a second process,
// and behind that this stream is complete: the time of all this, its median. rounds/empty: the same without the kernels.
// weir hands a buffer there by a channel, and one comes back; the peer shares two events of the driver, and says over a
// socket when each is recorded, because a wait is for the last record that was made.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipc/sockets.hpp"
#include "peers/cuda/driver.hpp"
#include "peers/cuda/kernel.hpp"
#include "support/row.hpp"
#include "support/second_process.hpp"
#include "support/suite.hpp"
#include "weir/cuda.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

using ipc::Channel;

constexpr unsigned long long kernel_clocks = 2'000;
constexpr std::size_t rounds = 2'000, size = 256;

/// Time a round many times, and say the median.
template <class Round>
void time_rounds(benchmark::State& state, Round round) {
  std::vector<double> times(rounds);
  for (std::size_t i = 0; i < rounds / 10; ++i) round();
  for (auto _ : state) {
    for (double& time : times) {
      const auto begin = Clock::now();
      round();
      time = seconds_since(begin);
    }
    std::ranges::nth_element(times, times.begin() + rounds / 2);
    state.SetIterationTime(times[rounds / 2]);
  }
}

/// A side of weir's rounds: a stream, and a buffer that it writes.
struct Side {
  explicit Side(bool with_kernels) : kernels(with_kernels) { make_cuda_current(); }

  void write() const {
    if (kernels) launch_busy_kernel(cuda::native(stream), cuda::pointer(buffer), kernel_clocks);
  }

  bool kernels;
  Stream stream{cuda::device(0)};
  Buffer buffer = cuda::make_vmm_resource(cuda::device(0), {.exportable = true})->allocate(size, stream);
};

template <bool kernels>
void answer(spi::UniqueFd socket) {
  Channel channel(std::move(socket));
  const Side side(kernels);
  try {
    for (;;) {
      const Buffer theirs = channel.receive(side.stream).buffer;
      side.write();
      channel.send(side.buffer, side.stream);
    }
  } catch (const Error& error) {
    if (error.code() != Errc::peer_gone) throw;
  }
}
const SecondProcess answers("answer", answer<false>), answers_by_kernels("answer-by-kernels", answer<true>);

void over_channel(benchmark::State& state, bool kernels) {
  auto [here, there] = Channel::make_sockets();
  const auto second = (kernels ? answers_by_kernels : answers).start(std::move(there));
  Channel channel(std::move(here));
  const Side side(kernels);
  time_rounds(state, [&] {
    side.write();
    channel.send(side.buffer, side.stream);
    const Buffer back = channel.receive(side.stream).buffer;
    side.stream.synchronize();
  });
}

/// An event that another process opens, and the one that it made. `name` is how each is called.
class SharedEvents {
 public:
  /// Sends the name of an event over `socket`, and opens the one that comes.
  explicit SharedEvents(int socket) {
    make_cuda_current();
    must(create_(&mine_, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS), "cuEventCreate");
    CUipcEventHandle name{}, theirs{};
    must(name_(&name, mine_), "cuIpcGetEventHandle");
    put(socket, std::as_bytes(std::span(&name, 1)));
    if (!get(socket, std::as_writable_bytes(std::span(&theirs, 1)))) throw std::runtime_error("the other process is gone");
    must(open_(&theirs_, theirs), "cuIpcOpenEventHandle");
  }
  SharedEvents(const SharedEvents&) = delete;
  SharedEvents& operator=(const SharedEvents&) = delete;
  ~SharedEvents() {
    destroy_(theirs_);
    destroy_(mine_);
  }
  void record(CUstream stream) const { must(record_(mine_, stream), "cuEventRecord"); }
  void wait(CUstream stream) const { must(wait_(stream, theirs_, 0), "cuStreamWaitEvent"); }

 private:
  decltype(&::cuEventCreate) create_ = cuda_function<decltype(create_)>("cuEventCreate", 2000);
  decltype(&::cuEventDestroy) destroy_ = cuda_function<decltype(destroy_)>("cuEventDestroy", 4000);
  decltype(&::cuEventRecord) record_ = cuda_function<decltype(record_)>("cuEventRecord", 2000);
  decltype(&::cuStreamWaitEvent) wait_ = cuda_function<decltype(wait_)>("cuStreamWaitEvent", 3020);
  decltype(&::cuIpcGetEventHandle) name_ = cuda_function<decltype(name_)>("cuIpcGetEventHandle", 4010);
  decltype(&::cuIpcOpenEventHandle) open_ = cuda_function<decltype(open_)>("cuIpcOpenEventHandle", 4010);
  CUevent mine_ = nullptr, theirs_ = nullptr;
};

/// A stream and 8 bytes that its kernels write.
class Writer {
 public:
  explicit Writer(bool kernels) : kernels_(kernels) {
    must(cuda_driver().MemAllocAsync(&memory_, size, stream_.get()), "cuMemAllocAsync");
    synchronize_cuda(stream_.get());
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { cuda_driver().MemFreeAsync(memory_, stream_.get()); }
  void write() const {
    if (kernels_) launch_busy_kernel(stream_.get(), memory_, kernel_clocks);
  }
  [[nodiscard]] CUstream stream() const { return stream_.get(); }

 private:
  bool kernels_;
  std::shared_ptr<CUstream_st> stream_ = make_cuda_stream();
  CUdeviceptr memory_ = 0;
};

constexpr std::array<std::byte, 1> recorded{};

template <bool kernels>
void answer_by_events(spi::UniqueFd socket) {
  const SharedEvents events(socket.get());
  const Writer writer(kernels);
  std::array<std::byte, 1> word{};
  while (get(socket.get(), word)) {
    events.wait(writer.stream());
    writer.write();
    events.record(writer.stream());
    put(socket.get(), recorded);
  }
}
const SecondProcess events("events", answer_by_events<false>);
const SecondProcess events_by_kernels("events-by-kernels", answer_by_events<true>);

void by_events(benchmark::State& state, bool kernels) {
  auto [here, there] = Channel::make_sockets();
  const auto second = (kernels ? events_by_kernels : events).start(std::move(there));
  const spi::UniqueFd socket = std::move(here);
  const SharedEvents shared(socket.get());
  const Writer writer(kernels);
  time_rounds(state, [&] {
    writer.write();
    shared.record(writer.stream());
    put(socket.get(), recorded);
    std::array<std::byte, 1> word{};
    if (!get(socket.get(), word)) throw std::runtime_error("the other process is gone");
    shared.wait(writer.stream());
    synchronize_cuda(writer.stream());
  });
}

void add(const Device&) {
  for (const bool kernels : {false, true}) {
    const std::string row = std::string("cuda/rounds/") + (kernels ? "kernels" : "empty");
    add_row(row + "/weir", [=](benchmark::State& state) { over_channel(state, kernels); }, Timed::by_itself, Rounds::one);
    add_row(row + "/events", [=](benchmark::State& state) { by_events(state, kernels); }, Timed::by_itself, Rounds::one);
  }
}

const Suite suite("cuda", add);

}  // namespace
}  // namespace weir::bench
