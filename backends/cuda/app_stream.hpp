// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the timeline of an application's stream needs when nobody owns that stream: the application may have destroyed
// it, and its handle may mean another stream by now.

#include <cuda.h>

#include <atomic>
#include <optional>

#include "side_stream.hpp"
#include "stream/unmarked_work.hpp"

namespace weir::cuda {

class EventPool;

/// Work goes to the stream itself in calls that name it (naming.hpp). In other calls it goes to a side stream, after
/// everything that the context has by then. The stream waits for the side stream as soon as a call names it again. In
/// the same way, points are recorded on the stream in calls that name it, and else on the whole context.
class AppStream {
 public:
  /// Return the side stream, on which the caller puts work now. Needs the timeline's turn, as follow() does.
  SideStream& aside(Gpu& gpu) {
    if (!side_) side_.emplace(gpu);
    ahead_ = true;
    return *side_;
  }
  /// Let `native` wait for work that was put aside, if there is any. `native` is named, and its context is current.
  void follow(CUstream native, EventPool& events);
  /// Return whether there may be work that was put aside, and for which the stream does not wait yet.
  [[nodiscard]] bool is_ahead() const noexcept { return ahead_.load(std::memory_order_relaxed); }

  /// Note that another stream wanted to know how far this one is while no call named it. The next memory that comes
  /// back gets points of its own then, because a point of the whole context covers more than anybody waits for.
  void was_asked() noexcept { eager_.store(most_eager, std::memory_order_relaxed); }
  /// Return whether memory that came back just now gets a point of its own. New streams begin with a few such points.
  [[nodiscard]] bool marks_now() noexcept {
    const auto left = eager_.load(std::memory_order_relaxed);
    if (left == 0) [[likely]]
      return false;
    eager_.store(left - 1, std::memory_order_relaxed);
    return true;
  }

  weir::detail::UnmarkedWork unmarked;

 private:
  static constexpr unsigned most_eager = 4;

  std::optional<SideStream> side_;
  std::atomic<bool> ahead_{false};  // changed in the timeline's turn
  std::atomic<unsigned> eager_{most_eager};
};

}  // namespace weir::cuda
