// SPDX-License-Identifier: Apache-2.0
#pragma once
// Channels whose other end is in a process of its own.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "spawn.hpp"
#include "weir/channel.hpp"
#include "weir/device.hpp"
#include "weir/ipc.hpp"

namespace weir::test {

/// Return a channel whose other end goes to the child, as the file of a descriptor.
[[nodiscard]] inline ipc::Channel channel_to(const Child& child) {
  auto [mine, theirs] = ipc::Channel::make_sockets();
  std::vector<spi::UniqueFd> files;
  files.push_back(std::move(theirs));
  ipc::send(child.socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
  return ipc::Channel(std::move(mine));
}

/// In the child: return the other end of that channel.
[[nodiscard]] inline ipc::Channel channel_to_parent() {
  const ipc::Descriptor carrier = ipc::receive(Child::socket_in_child, std::chrono::seconds{30});
  return ipc::Channel(carrier.fds().front().duplicate());
}

/// A payload that names a round.
[[nodiscard]] inline Bytes payload_of(std::uint64_t round) {
  Bytes bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(round >> (8 * i) & 0xff));
  return bytes;
}

/// A child that does so with `count` buffers of the device (channel_child.cpp).
class ChannelChild : public Child {
 public:
  ChannelChild(const std::string& mode, const Device& device, std::size_t count)
      : Child(WEIR_CHILD_DIR "/channel_child", {mode, device.id(), std::to_string(count)}) {}
  [[nodiscard]] ipc::Channel connect() const { return channel_to(*this); }
};

}  // namespace weir::test
