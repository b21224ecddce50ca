// SPDX-License-Identifier: Apache-2.0
#pragma once
// churn/1000: a thousand buffers of mixed sizes live; one at random is closed and another allocated.
// churn/1000-any: of sizes that no two are likely to share.

#include "pool/sizes.hpp"
#include "support/live.hpp"
#include "support/row.hpp"

namespace weir::bench {

/// Calls itself a round: free a place and allocate it anew.
template <Allocator A>
class Churn {
 public:
  Churn(const A& allocator, const typename A::Stream& stream, Sizes sizes)
      : steps_(draw_steps(places, sizes)), live_(allocator, stream, places) {
    for (std::size_t i = 0; i < places; ++i) live_.allocate(i, steps_[i].bytes);
  }
  void free() { live_.free(step().place); }
  void allocate() {
    live_.allocate(step().place, step().bytes);
    ++at_;
  }

 private:
  static constexpr std::size_t places = 1000;
  [[nodiscard]] const Step& step() const noexcept { return steps_[at_ % step_count]; }

  std::vector<Step> steps_;
  Live<A> live_;
  std::size_t at_ = 0;
};

template <Allocator A>
void add_churn(const Subject<A>& subject) {
  for (const Sizes sizes : {Sizes::powers_of_two, Sizes::any}) {
    add_row(subject, sizes == Sizes::any ? "churn/1000-any" : "churn/1000",
            [subject, sizes](benchmark::State& state) {
              const auto allocator = subject.make(0);
              const auto stream = allocator->stream();
              Churn<A> churn(*allocator, stream, sizes);
              const auto round = [&] {
                churn.free();
                churn.allocate();
              };
              for (std::size_t i = 0; i < subject.rounds(20'000); ++i) round();
              for (auto _ : state) round();
            });
  }
}

}  // namespace weir::bench
