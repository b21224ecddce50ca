// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <utility>

#include "ipc/channel/deadline.hpp"
#include "ipc/ring/greeting.hpp"
#include "weir/error.hpp"
#include "weir/ring.hpp"

namespace weir::ipc {

Tensor Frame::tensor() const {
  if (!layout)
    throw Error(Errc::invalid_argument, "ipc::Frame::tensor: the ring has no layout; name one with Buffer::view");
  return {buffer.share(), *layout};
}

RingConsumer::RingConsumer(spi::UniqueFd socket, const RingConsumerOptions& options)
    : channel_(std::move(socket), {.window = options.ahead}) {}

// What the greeting says is learned before its memory is opened. So where that fails, the next call goes on with the
// first frame, and where there is no memory for learning it, with the greeting.
void RingConsumer::open(const Stream& stream, std::chrono::milliseconds timeout) {
  if (opened_) return;
  bool corrupt = false;
  const auto learn = [&](std::span<const std::byte> payload) {
    try {
      auto said = detail::ring::decode_greeting(payload);
      if (said.layout) layout_ = std::make_shared<const Layout>(*std::move(said.layout));
      expected_ = said.first;
      opened_ = true;
    } catch (const Error&) {
      corrupt = true;
      throw;
    }
    return true;
  };
  try {
    (void)channel_.receive(stream, timeout, learn);
  } catch (...) {
    if (corrupt) close();
    throw;
  }
}

Frame RingConsumer::next(const Stream& stream, std::chrono::milliseconds timeout) {
  const detail::channel::Deadline deadline(timeout);
  open(stream, timeout);
  Parcel parcel = channel_.receive(stream, deadline.left());
  try {
    Frame frame{.buffer = std::move(parcel.buffer), .layout = layout_};
    frame.sequence = detail::ring::take_sequence(parcel.payload);
    frame.payload = std::move(parcel.payload);
    if (frame.sequence < expected_) detail::ring::corrupt("a frame comes after a later one");
    if (layout_ && layout_->bytes_needed() > frame.buffer.size())
      detail::ring::corrupt("a frame is smaller than its layout");
    frame.missed = frame.sequence - std::exchange(expected_, frame.sequence + 1);
    return frame;
  } catch (...) {
    close();
    throw;
  }
}

}  // namespace weir::ipc
