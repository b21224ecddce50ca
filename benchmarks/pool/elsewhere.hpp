// SPDX-License-Identifier: Apache-2.0
#pragma once
// Allocated for one stream, last used on another: what allocation and free take together.
//   elsewhere/idle     nothing is pending on the other stream
//   elsewhere/pending  the other stream stands still while a thousand are freed on it, then they become free
//   elsewhere/thread   one thread allocates, another frees what it gets through a queue of 1024

#include <exception>
#include <thread>

#include "pool/ring.hpp"
#include "support/gate.hpp"
#include "support/row.hpp"

namespace weir::bench {

/// Ends what comes through the ring, as long as the object lives.
template <Allocator A>
class Consumer {
 public:
  Consumer(const A& allocator, const typename A::Stream& stream)
      : thread_([this, &allocator, stream] { consume(allocator, stream); }) {}
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;
  ~Consumer() { finish(); }

  void push(typename A::Held&& held) { ring_.push(std::move(held)); }
  /// Wait until all is ended; throws what that threw.
  void join() {
    finish();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void finish() {
    ring_.close();
    if (thread_.joinable()) thread_.join();
  }
  void consume(const A& allocator, const typename A::Stream& stream) {
    typename A::Held held{};
    while (ring_.pop(held)) {
      try {
        free_elsewhere(allocator, held, stream);
      } catch (...) {
        error_ = std::current_exception();
      }
    }
  }

  Ring<typename A::Held> ring_{1024};
  std::exception_ptr error_;
  std::thread thread_;  // last
};

template <Allocator A>
void add_elsewhere(const Subject<A>& subject) {
  constexpr std::size_t bytes = 4 * kib;
  add_row(subject, "elsewhere/idle", [subject](benchmark::State& state) {
    const auto allocator = subject.make(0);
    const auto stream = allocator->stream(), other = allocator->stream();
    const auto round = [&] {
      auto held = allocator->allocate(bytes, stream);
      free_elsewhere(*allocator, held, other);
    };
    for (std::size_t i = 0; i < subject.rounds(5000); ++i) round();
    for (auto _ : state) round();
  });
  add_row(subject, "elsewhere/thread", [subject](benchmark::State& state) {
    const auto allocator = subject.make(0);
    const auto stream = allocator->stream(), other = allocator->stream();
    Consumer<A> consumer(*allocator, other);
    for (std::size_t i = 0; i < subject.rounds(5000); ++i) consumer.push(allocator->allocate(bytes, stream));
    for (auto _ : state) consumer.push(allocator->allocate(bytes, stream));
    consumer.join();
  });
  if constexpr (Ordered<A>) {
    constexpr std::size_t batch = 1000;
    const auto body = [subject](benchmark::State& state) {
      const auto allocator = subject.make(0);
      const auto stream = allocator->stream(), other = allocator->stream();
      const auto round = [&] {
        const Standstill<A> still(*allocator, other);
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < batch; ++i) {
          auto held = allocator->allocate(bytes, stream);
          allocator->free_on(held, other);
        }
        return seconds_since(begin);
      };
      for (int i = 0; i < 5; ++i) round();
      for (auto _ : state) state.SetIterationTime(round());
      time_each(state, batch);
    };
    add_row(subject, "elsewhere/pending", body, Timed::by_itself);
  }
}

}  // namespace weir::bench
