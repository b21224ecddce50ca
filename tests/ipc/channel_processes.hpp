// SPDX-License-Identifier: Apache-2.0
#pragma once
// Channels whose other end is in a process of its own (channel_child.cpp).

#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "spawn.hpp"
#include "weir/channel.hpp"
#include "weir/device.hpp"
#include "weir/ipc.hpp"

namespace weir::test {

/// A child that does so with `count` buffers of the device.
class ChannelChild : public Child {
 public:
  ChannelChild(const std::string& mode, const Device& device, std::size_t count)
      : Child(WEIR_CHILD_DIR "/channel_child", {mode, device.id(), std::to_string(count)}) {}
  /// Return a channel whose other end goes to the child.
  [[nodiscard]] ipc::Channel connect() const {
    auto [mine, theirs] = ipc::Channel::make_sockets();
    std::vector<spi::UniqueFd> files;
    files.push_back(std::move(theirs));
    ipc::send(socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
    return ipc::Channel(std::move(mine));
  }
};

}  // namespace weir::test
