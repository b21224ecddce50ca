// SPDX-License-Identifier: Apache-2.0
#pragma once
// streams/warm, streams/cold: four times an allocation, work on it, and its free, each on another of four
// streams, until all is done (RMM's multi-stream benchmark). Warm: the streams have allocated before. Cold: a
// new allocator with 64 MiB ready, which none of the streams has met.

#include <functional>
#include <memory>
#include <vector>

#include "support/row.hpp"

namespace weir::bench {

/// Puts work on the memory on its stream.
template <Allocator A>
using Work = std::function<void(typename A::Held&, const typename A::Stream&)>;

template <Allocator A>
void add_streams(const Subject<A>& subject, std::size_t bytes, const Work<A>& work, const char* label) {
  for (const bool warm : {true, false}) {
    const auto body = [=](benchmark::State& state) {
      const auto begin_anew = [&subject] { return subject.make(64 * mib); };
      auto allocator = begin_anew();
      std::vector<typename A::Stream> streams;
      for (int i = 0; i < 4; ++i) streams.push_back(allocator->stream());
      const auto round = [&] {
        const auto begin = Clock::now();
        for (const auto& stream : streams) {
          auto held = allocator->allocate(bytes, stream);
          work(held, stream);
          allocator->free(held, stream);
        }
        for (const auto& stream : streams) allocator->synchronize(stream);
        return seconds_since(begin);
      };
      round();
      for (auto _ : state) {
        if (!warm) allocator = begin_anew();
        state.SetIterationTime(round());
      }
      state.SetLabel(label);
    };
    add_row(subject, warm ? "streams/warm" : "streams/cold", body, Timed::by_itself)
        .Unit(benchmark::kMicrosecond);
  }
}

}  // namespace weir::bench
