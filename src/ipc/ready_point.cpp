// SPDX-License-Identifier: Apache-2.0
#include "ipc/ready_point.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "device/registry.hpp"
#include "ipc/file_pairs.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

constexpr char purpose[] = "ready point";

// A timeline with one point, on which nobody in this process puts work.
class RemotePoint final : public spi::StreamState {
 public:
  RemotePoint(spi::DeviceState& device, spi::StrangerFd fd) : StreamState(device), fd_(std::move(fd)) {}

 private:
  void do_copy(const spi::CopyOp&, std::uint64_t) override { refuse(); }
  void do_fill(const spi::FillOp&, std::uint64_t) override { refuse(); }
  void do_copy_region(const spi::RegionOp&, std::uint64_t) override { refuse(); }
  void do_mark(std::uint64_t) override {}
  void do_flush() override {}
  std::uint64_t do_poll() override { return look(0) == WaitStatus::ready ? 1 : 0; }

  WaitStatus do_wait_host(std::uint64_t, std::chrono::nanoseconds timeout) override {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds longest{1000};  // poll takes an int, so a long wait is many slices
    const bool endless = timeout.count() < 0;
    const auto begin = Clock::now();
    for (;;) {
      auto slice = longest;
      if (!endless) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(timeout - (Clock::now() - begin));
        slice = std::clamp(left, std::chrono::milliseconds{0}, longest);
      }
      if (look(static_cast<int>(slice.count())) == WaitStatus::ready) return WaitStatus::ready;
      if (slice.count() == 0) return WaitStatus::timeout;
    }
  }

  // The byte is looked for and never received, because another importer that reads from the socket can keep all readers
  // waiting.
  WaitStatus look(int milliseconds) const {
    pollfd entry{fd_.get(), POLLIN | POLLRDHUP, 0};
    const int count = ::poll(&entry, 1, milliseconds);
    if (count < 0 && errno != EINTR) fail_descriptor(purpose, "poll", errno);
    if (count <= 0) return WaitStatus::timeout;
    if ((entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0) return WaitStatus::ready;
    int bytes = 0;
    if (::ioctl(fd_.get(), FIONREAD, &bytes) != 0) fail_descriptor(purpose, "ioctl", errno);
    if (bytes > 0) return WaitStatus::ready;
    throw Error(Errc::peer_gone, "the process that exported the buffer ended before its work on it was complete");
  }

  [[noreturn]] static void refuse() { throw Error(Errc::unsupported, "a point of another process takes no work"); }

  spi::StrangerFd fd_;
};

}  // namespace

spi::UniqueFd send_ready(const Stream& stream) {
  auto [importer, other] = make_one_way_sockets(purpose);
  auto exporter = std::make_shared<spi::UniqueFd>(std::move(other));
  stream.call([exporter = std::move(exporter)] {
    const char byte = 1;
    while (::send(exporter->get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      if (errno == EPIPE || errno == ECONNRESET) return;  // nobody listens any more
      if (errno != EINTR)
        fail_descriptor(purpose, "send", errno);  // goes to the failure sink; importers see a hang-up
    }
  });
  return std::move(importer);
}

Event receive_ready(spi::StrangerFd end) {
  check_socket_end(end.get(), purpose);
  auto point = spi::Ref<spi::StreamState>::adopt(new RemotePoint(host_state(), std::move(end)));
  const auto value = point->put(spi::MarkOp{});
  return {std::move(point), value};
}

}  // namespace weir::detail
