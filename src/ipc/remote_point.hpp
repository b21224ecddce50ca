// SPDX-License-Identifier: Apache-2.0
#pragma once
// A point that another process reaches, as a timeline of this one.

#include <algorithm>
#include <chrono>
#include <utility>

#include "device/registry.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// A timeline with one point, on which nobody in this process puts work.
class RemotePoint : public spi::StreamState {
 public:
  RemotePoint() : StreamState(host_state()) {}

 private:
  /// Return whether the point has been reached. Throws peer_gone if it never will be.
  [[nodiscard]] virtual bool is_reached() = 0;
  /// Sleep for at most `most`, and no longer than until the point is reached. The caller has waited for `waited`.
  virtual void sleep(std::chrono::nanoseconds waited, std::chrono::nanoseconds most) = 0;

  void do_copy(const spi::CopyOp&, std::uint64_t) final { refuse(); }
  void do_fill(const spi::FillOp&, std::uint64_t) final { refuse(); }
  void do_copy_region(const spi::RegionOp&, std::uint64_t) final { refuse(); }
  void do_mark(std::uint64_t) final {}
  void do_flush() final {}
  // What is refused here still has a value, and a buffer that was to be used by it waits for that value.
  std::uint64_t do_poll() final { return is_reached() ? issued() : 0; }

  WaitStatus do_wait_host(std::uint64_t, std::chrono::nanoseconds timeout) final {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::nanoseconds longest = std::chrono::seconds{1};
    const bool endless = timeout.count() < 0;
    const auto begin = Clock::now();
    while (!is_reached()) {
      const std::chrono::nanoseconds waited = Clock::now() - begin;
      const auto most = endless ? longest : std::min<std::chrono::nanoseconds>(longest, timeout - waited);
      if (most.count() <= 0) return WaitStatus::timeout;
      sleep(waited, most);
    }
    return WaitStatus::ready;
  }

  [[noreturn]] static void refuse() { throw Error(Errc::unsupported, "a point of another process takes no work"); }
};

/// Make a timeline of this class. Return its point.
template <class Point, class... Arguments>
[[nodiscard]] Event make_point(Arguments&&... arguments) {
  auto timeline = spi::Ref<spi::StreamState>::adopt(new Point(std::forward<Arguments>(arguments)...));
  const auto value = timeline->put(spi::MarkOp{});
  return {std::move(timeline), value};
}

}  // namespace weir::detail
