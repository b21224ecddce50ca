// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/received_point.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "device/registry.hpp"
#include "ipc/channel/link.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::channel {
namespace {

using State = PeerPage::State;
using Clock = std::chrono::steady_clock;

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

// A timeline with one point, on which nobody in this process puts work.
class ForeignPoint final : public spi::StreamState {
 public:
  ForeignPoint(spi::DeviceState& device, std::shared_ptr<const PeerPage> page, PagePoint point,
               std::weak_ptr<const Link> link)
      : StreamState(device), page_(std::move(page)), point_(point), link_(std::move(link)) {}

 private:
  void do_copy(const spi::CopyOp&, std::uint64_t) override { refuse(); }
  void do_fill(const spi::FillOp&, std::uint64_t) override { refuse(); }
  void do_copy_region(const spi::RegionOp&, std::uint64_t) override { refuse(); }
  void do_mark(std::uint64_t) override {}
  void do_flush() override {}
  std::uint64_t do_poll() override { return check(*page_, point_, link_) ? 1 : 0; }

  WaitStatus do_wait_host(std::uint64_t, std::chrono::nanoseconds timeout) override {
    const bool endless = timeout.count() < 0;
    const auto begin = Clock::now();
    while (!check(*page_, point_, link_)) {
      std::chrono::nanoseconds most = longest_sleep;
      if (!endless) most = std::min(most, timeout - (Clock::now() - begin));
      if (most.count() <= 0) return WaitStatus::timeout;
      page_->sleep(point_, most);
    }
    return WaitStatus::ready;
  }

  [[noreturn]] static void refuse() { throw Error(Errc::unsupported, "a point of another process takes no work"); }

  const std::shared_ptr<const PeerPage> page_;
  const PagePoint point_;
  const std::weak_ptr<const Link> link_;
};

}  // namespace

void ReceivedPoint::order(const Stream& stream) {
  if (check(*page_, point_, link_)) return;
  Event event;
  {
    const std::scoped_lock lock(making_);
    if (!event_.timeline()) {
      auto timeline = spi::Ref<spi::StreamState>::adopt(new ForeignPoint(host_state(), page_, point_, link_));
      const auto value = timeline->put(spi::MarkOp{});
      event_ = Event(std::move(timeline), value);
    }
    event = event_;
  }
  stream.wait(event);
}

}  // namespace weir::detail::channel
