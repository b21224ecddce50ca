// SPDX-License-Identifier: Apache-2.0
// points/behind-work: buffers of 256 bytes go to a second process while the sending stream stands still, each written
// after the one before was sent; then the stream goes on, and the second process takes them in stream order and gives
// them back. Per buffer. points/hand-over: a buffer goes there behind a host function of 20 µs and one comes back in
// the same way: half the time of the way there and back, its median.
#include <algorithm>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "ipc/process.hpp"
#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/host.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

using ipc::Channel;

constexpr std::size_t size = 256, batch = 200, rounds = 5'000;
constexpr double function_seconds = 20e-6;

void spin() {
  const auto begin = Clock::now();
  while (seconds_since(begin) < function_seconds) {
  }
}

/// Call `take` with each buffer until the other end is gone.
template <class Take>
void receive_all(Channel& channel, const Stream& stream, Take take) {
  try {
    for (;;) take(channel.receive(stream).buffer);
  } catch (const Error& error) {
    if (error.code() != Errc::peer_gone) throw;
  }
}

void behind_work(benchmark::State& state) {
  auto [here, there] = Channel::make_sockets();
  std::optional<Process> other(std::in_place, [&] {
    here.reset();
    Channel channel(std::move(there));
    const Stream stream(host_device());
    receive_all(channel, stream, [](Buffer buffer) { buffer.close(); });
  });
  there.reset();
  Channel channel(std::move(here));
  const Stream stream(host_device());
  const Buffer all = host::make_shared_resource()->allocate(batch * size, stream);
  for (auto _ : state) {
    std::promise<void> opened;
    stream.call([future = opened.get_future().share()] { future.wait(); });
    for (std::size_t i = 0; i < batch; ++i) {
      Buffer part = all.slice(i * size, size);
      part.fill(std::uint8_t{1}, stream);
      channel.send(part, stream);
    }
    opened.set_value();
    while (channel.stats().lent != 0) std::this_thread::yield();
  }
  time_each(state, batch);
}

void hand_over(benchmark::State& state) {
  auto [here, there] = Channel::make_sockets();
  const auto send = [](Channel& channel, const Buffer& buffer, const Stream& stream) {
    stream.call(spin);
    channel.send(buffer, stream);
  };
  std::optional<Process> other(std::in_place, [&] {
    here.reset();
    Channel channel(std::move(there));
    const Stream stream(host_device());
    const Buffer own = host::make_shared_resource()->allocate(size, stream);
    receive_all(channel, stream, [&](Buffer buffer) {
      stream.synchronize();
      buffer.close();
      send(channel, own, stream);
    });
  });
  there.reset();
  {
    Channel channel(std::move(here));
    const Stream stream(host_device());
    const Buffer own = host::make_shared_resource()->allocate(size, stream);
    const auto there_and_back = [&] {
      send(channel, own, stream);
      Buffer back = channel.receive(stream).buffer;
      stream.synchronize();
      back.close();
    };
    std::vector<double> halves(rounds);
    for (std::size_t i = 0; i < rounds / 10; ++i) there_and_back();
    for (auto _ : state) {
      for (double& half : halves) {
        const auto begin = Clock::now();
        there_and_back();
        half = seconds_since(begin) / 2 * 1e9;
      }
    }
    std::ranges::nth_element(halves, halves.begin() + rounds / 2);
    state.counters["p50_ns"] = halves[rounds / 2];
  }
}

void add(const Device&) {
  add_row("host/points/behind-work/weir", behind_work);
  add_row("host/points/hand-over/weir", hand_over, Timed::loop, Rounds::one);
}

const Suite suite("host", add);

}  // namespace
}  // namespace weir::bench
