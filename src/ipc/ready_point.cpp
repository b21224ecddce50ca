// SPDX-License-Identifier: Apache-2.0
#include "ipc/ready_point.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "ipc/file_pairs.hpp"
#include "ipc/own_file.hpp"
#include "ipc/remote_point.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

constexpr char purpose[] = "ready point";

class SocketPoint final : public RemotePoint {
 public:
  explicit SocketPoint(spi::StrangerFd fd) noexcept : fd_(std::move(fd)) {}

 private:
  // The byte is looked for and never received, because another importer that reads from the socket can keep all readers
  // waiting.
  bool is_reached() override {
    const auto events = poll(0);
    if (events == 0) return false;
    if ((events & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0) return true;
    int bytes = 0;
    if (::ioctl(fd_.get(), FIONREAD, &bytes) != 0) fail_descriptor(purpose, "ioctl", errno);
    if (bytes > 0) return true;
    throw Error(Errc::peer_gone, "the process that exported the buffer ended before its work on it was complete");
  }

  void sleep(std::chrono::nanoseconds /*waited*/, std::chrono::nanoseconds most) override {
    (void)poll(static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(most).count()));
  }

  // Return what is the case by then; 0 for nothing.
  [[nodiscard]] int poll(int milliseconds) const {
    pollfd entry{fd_.get(), POLLIN | POLLRDHUP, 0};
    const int count = ::poll(&entry, 1, milliseconds);
    if (count < 0 && errno != EINTR) fail_descriptor(purpose, "poll", errno);
    return count > 0 ? entry.revents : 0;
  }

  spi::StrangerFd fd_;
};

/// The exporter's end. The copy of a forked child would keep the importer from noticing the end of the parent.
class SendingEnd {
 public:
  explicit SendingEnd(spi::UniqueFd end) noexcept : end_(std::move(end)) {}
  SendingEnd(const SendingEnd&) = delete;
  SendingEnd& operator=(const SendingEnd&) = delete;
  // A child that is forked between this and the close keeps a copy for ever, which then says nothing any more.
  ~SendingEnd() {
    if (end_) (void)::shutdown(end_.get(), SHUT_RDWR);
  }

  /// Say that the point is reached.
  void tell() const {
    if (!end_) return;  // in a forked child, whose copy of the stream says nothing about the parent's work
    const char byte = 1;
    while (::send(end_.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      if (errno == EPIPE || errno == ECONNRESET) return;  // nobody listens any more
      if (errno != EINTR)
        fail_descriptor(purpose, "send", errno);  // goes to the failure sink; importers see a hang-up
    }
  }

 private:
  OwnFile end_;
};

}  // namespace

spi::UniqueFd send_ready(const Stream& stream) {
  auto [importer, other] = make_one_way_sockets(purpose);
  auto exporter = std::make_shared<SendingEnd>(std::move(other));
  stream.state().put_promise({[exporter = std::move(exporter)] { exporter->tell(); }});
  return std::move(importer);
}

Event receive_ready(spi::StrangerFd end) {
  check_socket_end(end.get(), purpose);
  return make_point<SocketPoint>(std::move(end));
}

}  // namespace weir::detail
