// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file whose close blocks, and which is no pipe: the end of a TCP connection that lingers, because its peer does not
// read what was sent.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "weir/spi/unique_fd.hpp"

namespace weir::test {

class LingeringSocket {
 public:
  LingeringSocket() {
    const spi::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    file_ = spi::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const linger hour{1, 3600};
    if (::bind(listener.get(), general, size) != 0 || ::getsockname(listener.get(), general, &size) != 0 ||
        ::listen(listener.get(), 1) != 0 || ::connect(file_.get(), general, size) != 0 ||
        ::setsockopt(file_.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour) != 0)
      throw std::runtime_error("no connection over the loopback device");
    peer_ = spi::UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    static constexpr std::array<char, 65536> bytes{};
    while (::send(file_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
  }
  /// The file. Whoever closes it waits for let_go().
  [[nodiscard]] spi::UniqueFd take() { return std::move(file_); }
  void let_go() {
    const linger none{1, 0};  // the peer is told of a reset
    (void)::setsockopt(peer_.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    peer_.reset();
  }

 private:
  spi::UniqueFd file_, peer_;
};

}  // namespace weir::test
