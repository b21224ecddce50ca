// SPDX-License-Identifier: Apache-2.0
// ring/hand-over: a frame of 256 bytes goes to a second process and one comes back: half the time of the way there and
// back, its median. ring/messages: 256 bytes for each frame, 64 of them in a call. ring/copied: frames of 4 MiB are
// copied into their slots and published; beside it, the same copies into the same sort of memory, and nothing else.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "ipc/process.hpp"
#include "ipc/sockets.hpp"
#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/host.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

using ipc::Channel;
using ipc::RingConsumer;
using ipc::RingProducer;

constexpr std::size_t rounds = 20'000, small = 256, batch = 64, large = 4 * mib, large_slots = 3;

ResourcePtr shared() { return host::make_shared_resource(); }

/// Call `take` with each frame until the ring is closed.
template <class Take>
void consume(RingConsumer& consumer, const Stream& stream, Take take) {
  try {
    for (;;) take(consumer.next(stream));
  } catch (const Error& error) {
    if (error.code() != Errc::peer_gone) throw;
  }
}

/// Say the median of half the time that `there_and_back` takes.
template <class Round>
void time_halves(benchmark::State& state, Round there_and_back) {
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

void hand_over(benchmark::State& state) {
  auto [there, there_end] = Channel::make_sockets();
  auto [back, back_end] = Channel::make_sockets();
  std::optional<Process> other(std::in_place, [&] {
    there.reset(), back.reset();
    const Stream stream(host_device());
    RingProducer producer(shared(), {.slot_bytes = small});
    (void)producer.add_consumer(std::move(back_end));
    RingConsumer consumer(std::move(there_end));
    consume(consumer, stream, [&](const ipc::Frame&) { (void)producer.publish(producer.acquire(stream), stream); });
  });
  there_end.reset(), back_end.reset();
  {
    const Stream stream(host_device());
    RingProducer producer(shared(), {.slot_bytes = small});
    (void)producer.add_consumer(std::move(there));
    RingConsumer consumer(std::move(back));
    ipc::Frame held;
    time_halves(state, [&] {
      (void)producer.publish(producer.acquire(stream), stream);
      held.buffer.close();
      held = consumer.next(stream);
    });
  }
}

void hand_over_bare(benchmark::State& state) {
  auto [here, there] = Channel::make_sockets();
  std::array<std::byte, 40> bytes{};
  std::optional<Process> other(std::in_place, [&] {
    here.reset();
    while (get(there.get(), bytes)) put(there.get(), bytes);
  });
  there.reset();
  time_halves(state, [&] {
    put(here.get(), bytes);
    (void)get(here.get(), bytes);
  });
  here.reset();
}

void messages(benchmark::State& state) {
  auto [there, there_end] = Channel::make_sockets();
  std::optional<Process> other(std::in_place, [&] {
    there.reset();
    const Stream stream(host_device());
    RingConsumer consumer(std::move(there_end), {.ahead = 512});
    consume(consumer, stream, [](const ipc::Frame&) {});
  });
  there_end.reset();
  const Stream stream(host_device());
  RingProducer producer(shared(), {.slots = 1024, .slot_bytes = small, .per_consumer = 512});
  (void)producer.add_consumer(std::move(there));
  std::vector<ipc::Parcel> parcels(batch);
  for (auto _ : state) {
    for (ipc::Parcel& parcel : parcels) parcel.buffer = producer.acquire(stream);
    (void)producer.publish(parcels, stream);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch));
}

void messages_bare(benchmark::State& state) {
  auto [there, there_end] = Channel::make_sockets();
  std::array<std::byte, small> bytes{};
  std::optional<Process> other(std::in_place, [&] {
    there.reset();
    while (get(there_end.get(), bytes)) {
    }
  });
  there_end.reset();
  for (auto _ : state) put(there.get(), bytes);
  state.SetItemsProcessed(state.iterations());
  there.reset();
}

void copied(benchmark::State& state) {
  auto [there, there_end] = Channel::make_sockets();
  std::optional<Process> other(std::in_place, [&] {
    there.reset();
    const Stream stream(host_device());
    RingConsumer consumer(std::move(there_end));
    consume(consumer, stream, [](const ipc::Frame&) {});
  });
  there_end.reset();
  const Stream stream(host_device());
  RingProducer producer(shared(), {.slots = large_slots, .slot_bytes = large});
  (void)producer.add_consumer(std::move(there));
  const std::vector<std::byte> source(large, std::byte{1});
  const auto frame = [&] {
    Buffer slot = producer.acquire(stream);
    slot.copy_from(source, stream);
    (void)producer.publish(std::move(slot), stream);
  };
  for (std::size_t i = 0; i < 2 * large_slots; ++i) frame();
  for (auto _ : state) frame();
}

void copied_bare(benchmark::State& state) {
  const Stream stream(host_device());
  const Buffer all = shared()->allocate(large_slots * large, stream);
  const std::vector<std::byte> source(large, std::byte{1});
  std::size_t next = 0;
  const auto frame = [&] {
    std::memcpy(all.host_data() + next++ % large_slots * large, source.data(), large);
    benchmark::ClobberMemory();
  };
  for (std::size_t i = 0; i < 2 * large_slots; ++i) frame();
  for (auto _ : state) frame();
}

void add(const Device&) {
  add_row("host/ring/hand-over/weir", hand_over, Timed::loop, Rounds::one);
  add_row("host/ring/hand-over/socket", hand_over_bare, Timed::loop, Rounds::one);
  add_row("host/ring/messages/weir", messages);
  add_row("host/ring/messages/socket", messages_bare);
  add_row("host/ring/copied/weir", copied);
  add_row("host/ring/copied/memcpy", copied_bare);
}

const Suite suite("host", add);

}  // namespace
}  // namespace weir::bench
