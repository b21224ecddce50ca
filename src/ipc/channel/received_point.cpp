// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/received_point.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipc/channel/link.hpp"
#include "ipc/remote_point.hpp"
#include "weir/error.hpp"

namespace weir::detail::channel {
namespace {

using State = PeerPage::State;

// The peer wakes whoever sleeps, unless a device of the peer's has written the word, or the peer is gone.
constexpr std::chrono::milliseconds longest_sleep{10};

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
  void sleep(std::chrono::nanoseconds most) override {
    page_->sleep(point_, std::min<std::chrono::nanoseconds>(most, longest_sleep));
  }

  const std::shared_ptr<const PeerPage> page_;
  const PagePoint point_;
  const std::weak_ptr<const Link> link_;
};

}  // namespace

void ReceivedPoint::order(const Stream& stream) {
  if (refusal_) std::rethrow_exception(refusal_);
  if (check(*page_, point_, link_)) return;
  Event event;
  {
    const std::scoped_lock lock(making_);
    if (!event_.timeline()) event_ = make_point<PeerPoint>(page_, point_, link_);
    event = event_;
  }
  stream.wait(event);
}

}  // namespace weir::detail::channel
