// SPDX-License-Identifier: Apache-2.0
// Another process's buffer, from its descriptor.
#include <utility>
#include <vector>

#include "ipc/file_pairs.hpp"
#include "ipc/foreign_memory.hpp"
#include "ipc/ready_point.hpp"
#include "ipc/wire.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {

Buffer ipc::open(Descriptor descriptor, const Stream& stream) {
  (void)stream.state();
  const auto wire = detail::decode(descriptor.bytes());
  auto& fds = descriptor.fds_;
  if (fds.size() != wire.fd_count()) {
    throw Error(Errc::corrupt_descriptor, "descriptor: " + std::to_string(fds.size()) +
                                              " file descriptors came with it, it needs " +
                                              std::to_string(wire.fd_count()));
  }
  for (const auto& fd : fds) {
    if (!fd) throw Error(Errc::corrupt_descriptor, "descriptor: a file descriptor is missing");
  }
  auto& device = detail::device_of(wire, stream.state().device());
  spi::StrangerFd lease;
  if (wire.has_lease) lease = std::move(fds.back());
  if (lease) detail::check_write_end(lease.get(), "lease");
  Event ready;
  const std::size_t memory = wire.memory_files();
  if (wire.has_ready) ready = detail::receive_ready(std::move(fds[memory]));
  std::vector<spi::StrangerFd> files;
  files.reserve(memory);
  for (std::size_t i = 0; i < memory; ++i) files.emplace_back(std::move(fds[i]));
  auto segment = detail::open_memory(device, wire, files);
  segment->lease = std::move(lease);
  Buffer opened = spi::make_adopted_buffer(std::move(segment), wire.offset, wire.size, stream);
  stream.wait(ready);  // last: a call that fails leaves no wait behind
  return opened;
}

}  // namespace weir
