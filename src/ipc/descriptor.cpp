// SPDX-License-Identifier: Apache-2.0
#include "weir/ipc.hpp"

#include <utility>

#include "base/file_closer.hpp"

namespace weir {

ipc::Descriptor::Descriptor(std::span<const std::byte> bytes, std::vector<spi::UniqueFd> fds) : fds_(std::move(fds)) {
  try {
    bytes_.assign(bytes.begin(), bytes.end());
  } catch (...) {
    close();
    throw;
  }
}

ipc::Descriptor& ipc::Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  bytes_ = std::move(other.bytes_);
  fds_ = std::move(other.fds_);
  own_ = other.own_;
  return *this;
}

ipc::Descriptor::~Descriptor() { close(); }

void ipc::Descriptor::close() noexcept {
  detail::close_apart(fds_, own_);
  fds_.clear();
}

}  // namespace weir
