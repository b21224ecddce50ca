// SPDX-License-Identifier: Apache-2.0
// Steps over channels, and the end of a process.
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "player.hpp"
#include "weir/error.hpp"

namespace weir::test::random {
namespace {

/// Of a length that depends on the seed, too.
Bytes payload(std::uint64_t seed) {
  return pattern(seed % (ipc::Channel::most_payload + 1), static_cast<std::uint32_t>(seed));
}

ipc::Access access_of(bool read_only) { return read_only ? ipc::Access::read_only : ipc::Access::read_write; }

template <class Call>
void require_error(const Call& call, Errc code, const char* what) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == code) return;
    throw;
  }
  throw std::runtime_error(what);
}

}  // namespace

void Player::connect(const Op& op) {
  const ipc::ChannelOptions options{.window = static_cast<std::uint32_t>(op.args[1])};
  if (op.process != process_) {
    channels_.emplace(op.args[0], ipc::Channel(link_->receive_socket(op.args[0]), options));
    return;
  }
  auto [mine, theirs] = ipc::Channel::make_sockets();
  link_->send_socket(op.args[0], std::move(theirs));
  channels_.emplace(op.args[0], ipc::Channel(std::move(mine), options));
}

void Player::take_channel(const Op& op) {
  const auto& a = op.args;
  switch (op.verb) {
    case Verb::pack: {
      const ipc::Access access = access_of(op.words[0] == "read_only");
      packed_[a[1]].push_back({buffers_.at(a[2]).share(), payload(a[3]), access});
      return;
    }
    case Verb::post: {
      const std::vector<ipc::Parcel> batch = std::move(packed_.extract(a[0]).mapped());
      ipc::Channel& channel = channels_.at(a[0]);
      if (batch.size() == 1) {
        const ipc::Parcel& only = batch.front();
        return channel.send(only.buffer, streams_.at(a[1]), only.payload, ipc::Channel::endless, only.access);
      }
      if (channel.send(batch, streams_.at(a[1])) != batch.size()) throw std::runtime_error("not all were sent");
      return;
    }
    case Verb::take: return receive_parcel(op);
    case Verb::miss: return miss_parcel(op);
    case Verb::hang:
      packed_.erase(a[0]);
      channels_.at(a[0]).close();
      channels_.erase(a[0]);
      return;
    default: throw std::logic_error("no such step");
  }
}

void Player::receive_parcel(const Op& op) {
  const Model::Shipment& expected = model_.shipments.at(op.args[1]);
  const Stream& stream = streams_.at(op.args[2]);
  ipc::Parcel parcel = channels_.at(expected.channel).receive(stream);
  if (parcel.buffer.size() != expected.size) throw std::runtime_error("the buffer has another size");
  if (parcel.payload != payload(expected.seed)) throw std::runtime_error("the payload is another one");
  const bool read_only = expected.traits.read_only;
  if (parcel.access != access_of(read_only) || parcel.buffer.is_read_only() != read_only)
    throw std::runtime_error(read_only ? "it can be written" : "it can only be read");
  if (read_only) {
    require_error([&] { parcel.buffer.fill(std::uint8_t{1}, stream); }, Errc::permission_denied, "it was written");
  }
  buffers_.emplace(op.args[0], std::move(parcel.buffer));
}

void Player::miss_parcel(const Op& op) {
  const Model::Shipment& missed = model_.shipments.at(op.args[0]);
  require_error([&] { (void)channels_.at(missed.channel).receive(streams_.at(op.args[1])); }, Errc::peer_gone,
                "the buffer came, although its work did not");
}

void Player::see_death() {
  if (process_ == 1) ::kill(::getpid(), SIGKILL);
  link_->await_death();
  check_finished();
  // The connection was the lease.
  for (const auto& [number, channel] : channels_) {
    at("wait for what was lent over c" + std::to_string(number));
    while (channel.stats().lent != 0) std::this_thread::yield();
  }
}

void Player::ask_dead_peer() {
  if (!model_.alone) return;
  const Stream stream(host_device());
  for (auto& [number, channel] : channels_) {
    if (!model_.channels.at(number).ends[0].coming.empty()) continue;
    at("receive from c" + std::to_string(number) + ", whose other end is dead");
    require_error([&, &from = channel] { (void)from.receive(stream); }, Errc::peer_gone, "a buffer of the dead");
  }
}

}  // namespace weir::test::random
