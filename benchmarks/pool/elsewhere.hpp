// SPDX-License-Identifier: Apache-2.0
#pragma once
// Allocated for one stream, last used on another: what allocation and free take together.
//   elsewhere/idle     nothing is pending on the other stream
//   elsewhere/pending  the other stream stands still while 256 are freed on it, then it goes on, and again
//   elsewhere/thread   one thread allocates, another frees what it gets through a queue of 1024

#include <exception>
#include <thread>

#include "pool/ring.hpp"
#include "support/gate.hpp"
#include "support/row.hpp"

namespace weir::bench {

/// A thread that frees what comes through the ring, on a stream of its own.
template <Allocator A>
class Consumer {
 public:
  explicit Consumer(const A& allocator) : thread_([this, &allocator] { consume(allocator); }) {}
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
  void consume(const A& allocator) {
    typename A::Held held{};
    try {
      const auto stream = allocator.stream();
      while (ring_.pop(held)) free_elsewhere(allocator, held, stream);
    } catch (...) {
      error_ = std::current_exception();
      while (ring_.pop(held)) {  // nobody shall wait for a place
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
    const auto stream = allocator->stream();
    Consumer<A> consumer(*allocator);
    for (std::size_t i = 0; i < subject.rounds(5000); ++i) consumer.push(allocator->allocate(bytes, stream));
    for (auto _ : state) consumer.push(allocator->allocate(bytes, stream));
    consumer.join();
  });
  if constexpr (Ordered<A>) {
    // A driver may let us wait once a thousand things are queued on a stream, and who would let it go on then?
    constexpr std::size_t batch = 256;
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
      for (int i = 0; i < 20; ++i) round();
      for (auto _ : state) state.SetIterationTime(round());
      time_each(state, batch);
    };
    add_row(subject, "elsewhere/pending", body, Timed::by_itself);
  }
}

}  // namespace weir::bench
