// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/sent_points.hpp"

#include <string>
#include <utility>

#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::channel {
namespace {

/// What stands on a stream for a point. If it ends before it was kept, the stream is lost.
class Pledge {
 public:
  Pledge(std::shared_ptr<OwnPage> page, PagePoint point) noexcept : page_(std::move(page)), point_(point) {}
  Pledge(const Pledge&) = delete;
  Pledge& operator=(const Pledge&) = delete;
  ~Pledge() {
    if (page_) page_->give_up(point_.word);
  }
  void keep() noexcept {
    page_->reach(point_);
    cancel();
  }
  void cancel() noexcept { page_.reset(); }

 private:
  std::shared_ptr<OwnPage> page_;
  const PagePoint point_;
};

}  // namespace

PagePoint SentPoints::record(const Stream& stream) {
  auto& timeline = stream.state();
  const auto word = words_.of(timeline.id(), [&](PagePoint point) { return page_->reached(point); });
  if (!word)
    throw Error(Errc::unsupported,
                "ipc::Channel::send: " + std::to_string(page_words) +
                    " other streams have work that the peer waits for, or were lost with such work, "
                    "which is as many as a connection has words for; synchronize one that has work, or "
                    "use another channel");
  if (!timeline.has_work_from_outside()) {
    if (const auto given = words_.given(*word, timeline.issued())) return *given;
  }
  const PagePoint point = words_.next(*word);
  const auto pledge = std::make_shared<Pledge>(page_, point);
  try {
    words_.give(*word, timeline.put_promise({[pledge] { pledge->keep(); }}));
  } catch (...) {
    pledge->cancel();
    throw;
  }
  return point;
}

}  // namespace weir::detail::channel
