// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is measured: something that gives out memory on a stream and takes it back. weir is pooled.hpp, its
// peers are in peers/. A template and not a base class, so that a peer of a few nanoseconds pays for nothing
// but itself.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace weir::bench {

/// `Held` is one allocation; a value-initialized one is none, and freeing that does nothing. Everything may
/// be called by several threads at once, and throws when it fails.
template <class A>
concept Allocator = requires(const A& allocator, const typename A::Stream& stream, typename A::Held& held,
                             std::size_t bytes) {
  { allocator.stream() } -> std::same_as<typename A::Stream>;  // a new one; copies are the same one
  { allocator.allocate(bytes, stream) } -> std::same_as<typename A::Held>;
  allocator.free(held, stream);   // on the stream that it was allocated for
  allocator.pair(bytes, stream);  // both, as one writes it where memory is needed for a moment
  allocator.synchronize(stream);
};

/// Frees in the order of streams: also of another stream than the allocation's, with work on it that is not
/// done.
template <class A>
concept Ordered = Allocator<A> && requires(const A& allocator, const typename A::Stream& stream,
                                           typename A::Held& held, std::function<void()> function) {
  allocator.free_on(held, stream);
  allocator.call(stream, function);  // later work on the stream waits until it returned
};

/// An allocator and how rows name it. `make` gives a new one that has nothing yet, or so many bytes ready to
/// be given out where it can have them ready.
template <Allocator A>
struct Subject {
  std::string backend;
  std::string name;
  std::function<std::shared_ptr<A>(std::size_t ready)> make;
  bool slow = false;  ///< tens of microseconds each: gets fewer rounds, and no rows of many thousand buffers
  std::size_t most_random = 100'000;  ///< the largest N of random/N: beyond it a round would take seconds

  /// Rounds of warming up, or of a fixed number of rounds.
  [[nodiscard]] std::size_t rounds(std::size_t usual) const noexcept {
    return slow ? usual / 100 + 1 : usual;
  }
};

/// Give back memory where its last use was on `other`.
template <Allocator A>
void free_elsewhere(const A& allocator, typename A::Held& held, const typename A::Stream& other) {
  if constexpr (Ordered<A>) {
    allocator.free_on(held, other);
  } else {
    allocator.free(held, other);  // it knows no streams
  }
}

}  // namespace weir::bench
