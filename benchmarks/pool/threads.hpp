// SPDX-License-Identifier: Apache-2.0
#pragma once
// threads/own/N: pairs of 4 KiB by N threads at once, each on a stream of its own. threads/one/N: all on the
// same stream. Told as pairs per second, of all threads together.

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "support/row.hpp"

namespace weir::bench {

/// What the threads of one run have in common: made by the first that comes, ended by the last that goes.
template <Allocator A>
class Common {
 public:
  struct Things {
    std::shared_ptr<A> allocator;
    typename A::Stream stream;
  };
  std::shared_ptr<const Things> get(const Subject<A>& subject) {
    const std::scoped_lock lock(mutex_);
    auto things = things_.lock();
    if (!things) {
      auto allocator = subject.make(0);
      auto stream = allocator->stream();
      things = std::make_shared<const Things>(Things{std::move(allocator), std::move(stream)});
      things_ = things;
    }
    return things;
  }

 private:
  std::mutex mutex_;
  std::weak_ptr<const Things> things_;
};

template <Allocator A>
void add_threads(const Subject<A>& subject) {
  const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (const bool own : {true, false}) {
    for (const int threads : std::set{1, std::min(4, most), std::min(16, most)}) {
      auto common = std::make_shared<Common<A>>();
      auto& row = add_row(subject, (own ? "threads/own/" : "threads/one/") + std::to_string(threads),
                          [=](benchmark::State& state) {
                            const auto things = common->get(subject);
                            // Also where all use one: a thread that made a stream is known to the driver.
                            const auto mine = things->allocator->stream();
                            const auto& stream = own ? mine : things->stream;
                            const A& allocator = *things->allocator;
                            for (std::size_t i = 0; i < subject.rounds(1000); ++i)
                              allocator.pair(4 * kib, stream);
                            for (auto _ : state) allocator.pair(4 * kib, stream);
                            state.SetItemsProcessed(state.iterations());
                          });
      row.Threads(threads);
    }
  }
}

}  // namespace weir::bench
