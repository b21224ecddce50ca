// SPDX-License-Identifier: Apache-2.0
#pragma once
// streams/warm, streams/cold, streams/held: four times an allocation, work on it, and its free, each on
// another of four streams, until all is done (RMM's multi-stream benchmark). Warm: the streams have allocated
// before. Cold: a new allocator with 64 MiB ready, which none of the streams has met. Held: the work alone, on
// memory that was allocated before the time runs.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/row.hpp"

namespace weir::bench {

/// Puts work on the memory on its stream.
template <Allocator A>
using Work = std::function<void(typename A::Held&, const typename A::Stream&)>;

template <Allocator A>
void add_streams(const Subject<A>& subject, std::size_t bytes, const Work<A>& work, const char* label,
                 const std::vector<std::string>& hows = {"warm", "cold", "held"}) {
  for (const std::string& how : hows) {
    const bool cold = how == "cold", kept = how == "held";
    const auto body = [=](benchmark::State& state) {
      const auto begin_anew = [&subject] { return subject.make(64 * mib); };
      auto allocator = begin_anew();
      std::vector<typename A::Stream> streams;
      for (int i = 0; i < 4; ++i) streams.push_back(allocator->stream());
      std::vector<typename A::Held> held;
      for (const auto& stream : streams) held.push_back(allocator->allocate(bytes, stream));
      const auto round = [&] {
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < streams.size(); ++i) {
          if (!kept) held[i] = allocator->allocate(bytes, streams[i]);
          work(held[i], streams[i]);
          if (!kept) allocator->free(held[i], streams[i]);
        }
        for (const auto& stream : streams) allocator->synchronize(stream);
        return seconds_since(begin);
      };
      const auto free = [&] {
        for (std::size_t i = 0; i < streams.size(); ++i) allocator->free(held[i], streams[i]);
      };
      if (!kept) free();
      round();
      for (auto _ : state) {
        if (cold) allocator = begin_anew();
        state.SetIterationTime(round());
      }
      free();
      state.SetLabel(label);
    };
    add_row(subject, "streams/" + how, body, Timed::by_itself)
        .Unit(benchmark::kMicrosecond);
  }
}

}  // namespace weir::bench
