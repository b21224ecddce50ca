// SPDX-License-Identifier: Apache-2.0
#include "weir/channel.hpp"

#include <sys/socket.h>

#include <string>
#include <utility>

#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/file_pairs.hpp"
#include "weir/error.hpp"

namespace weir::ipc {
namespace {

using detail::channel::Deadline;
using detail::channel::Link;
using detail::channel::Outgoing;

void check(int socket, const ChannelOptions& options) {
  detail::channel::check_socket("ipc::Channel", socket);
  if (options.window == 0 || options.window > 65536)
    throw Error(Errc::invalid_argument,
                "ipc::Channel: a window of " + std::to_string(options.window) + " buffers; it may have 1 to 65536");
}

}  // namespace

struct Channel::State {
  explicit State(std::shared_ptr<Link> made) : link(std::move(made)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { link->close(); }
  const std::shared_ptr<Link> link;
};

Channel::Channel(spi::UniqueFd socket, const ChannelOptions& options) {
  spi::StrangerFd taken(std::move(socket));  // the peer may have sent something
  check(taken.get(), options);               // if this throws, copies of the file stay connected
  state_ = std::make_shared<State>(detail::channel::make_link(std::move(taken), options.window));
}

Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

std::pair<spi::UniqueFd, spi::UniqueFd> Channel::make_sockets() {
  return detail::make_sockets(SOCK_SEQPACKET, "channel");
}

void Channel::send(const Buffer& buffer, const Stream& stream, std::span<const std::byte> payload,
                   std::chrono::milliseconds timeout, Access access) {
  const Outgoing one{&buffer, payload, access};
  (void)state_->link->send({&one, 1}, stream, Deadline(timeout));
}

std::size_t Channel::send(std::span<const Parcel> parcels, const Stream& stream, std::chrono::milliseconds timeout) {
  std::vector<Outgoing> all;
  all.reserve(parcels.size());
  for (const Parcel& parcel : parcels) all.push_back({&parcel.buffer, parcel.payload, parcel.access});
  return state_->link->send(all, stream, Deadline(timeout));
}

Parcel Channel::receive(const Stream& stream, std::chrono::milliseconds timeout) {
  return state_->link->receive(stream, Deadline(timeout));
}

Parcel Channel::receive(const Stream& stream, std::chrono::milliseconds timeout, const Learns& learns) {
  return state_->link->receive(stream, Deadline(timeout), learns);
}

void Channel::close() noexcept {
  if (state_) state_->link->close();
}

ChannelStats Channel::stats() const { return state_->link->stats(); }

}  // namespace weir::ipc
