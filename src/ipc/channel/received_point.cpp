// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/received_point.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/fine_sleeps.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/remote_point.hpp"
#include "weir/error.hpp"

namespace weir::detail::channel {
namespace {

using State = PeerPage::State;

using std::chrono::nanoseconds;

// Nobody wakes a sleeper at once if a device of the peer's writes the word, or if the peer is gone. So whoever waits
// looks all the time at first, and then sleeps for a part of the time that it has waited. This is as long as a sleep
// may be, and as long as nobody asks about the peer.
constexpr nanoseconds longest_sleep = std::chrono::milliseconds{10};
constexpr nanoseconds eager = std::chrono::microseconds{20}, shortest_sleep = std::chrono::microseconds{2};
constexpr int part = 32;

[[noreturn]] void fail(State state) {
  throw Error(Errc::peer_gone,
              state == State::given_up
                  ? "ipc::Channel: the peer's stream was lost before its work on the buffer was complete"
                  : "ipc::Channel: the peer ended before its work on the buffer was complete");
}

/// Return whether the point has been reached. Throws peer_gone if it never will be.
bool check(const PeerPage& page, PagePoint point, const std::weak_ptr<const Link>& link) {
  State state = page.look(point);
  if (state == State::pending) {
    const auto connection = link.lock();
    if (connection && !connection->hung_up()) return false;
    state = page.look(point);  // what was reached before the end counts
  }
  if (state != State::reached) fail(state);
  return true;
}

class PeerPoint final : public RemotePoint {
 public:
  PeerPoint(std::shared_ptr<const PeerPage> page, PagePoint point, std::weak_ptr<const Link> link)
      : page_(std::move(page)), point_(point), link_(std::move(link)) {}

 private:
  bool is_reached() override { return check(*page_, point_, link_); }
  void sleep(nanoseconds waited, nanoseconds most) override {
    most = std::min(most, longest_sleep);
    const FineSleeps fine;
    const auto begin = Clock::now();
    for (nanoseconds slept{0}; slept < most && page_->look(point_) == State::pending; slept = Clock::now() - begin) {
      const auto sofar = waited + slept;
      if (sofar >= eager) page_->sleep(point_, std::min(most - slept, std::max(shortest_sleep, sofar / part)));
    }
  }

  const std::shared_ptr<const PeerPage> page_;
  const PagePoint point_;
  const std::weak_ptr<const Link> link_;
};

}  // namespace

// Have a look for as long as it takes to make a stream wait. Returns whether the point has been reached.
bool ReceivedPoint::comes_soon() const {
  for (const auto end = Clock::now() + std::chrono::microseconds{10}; Clock::now() < end;) {
    if (page_->look(point_) != State::pending) return check(*page_, point_, link_);
  }
  return false;
}

void ReceivedPoint::order(const Stream& stream) {
  if (refusal_) std::rethrow_exception(refusal_);
  if (check(*page_, point_, link_)) return;
  Event event;
  {
    const std::scoped_lock lock(making_);
    if (!event_.timeline() && comes_soon()) return;
    if (!event_.timeline()) event_ = make_point<PeerPoint>(page_, point_, link_);
    event = event_;
  }
  stream.wait(event);
}

}  // namespace weir::detail::channel
