// SPDX-License-Identifier: Apache-2.0
// The end of a socket that listens, whose clients have sent files that block whoever closes them. A call that waited
// for them would be ended by the watchdog.
#include "ipc/listening_socket.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <list>

#include "base/file_closer.hpp"
#include "folder.hpp"
#include "ipc/packets.hpp"
#include "ipc/peer.hpp"
#include "lingering_socket.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

class ListeningSocket : public testing::Test {
 protected:
  ListeningSocket() {
    listener.take(make());
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener.get(), 64), 0);
  }
  static spi::UniqueFd make() {
    return spi::UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  [[nodiscard]] spi::UniqueFd connected() const {
    auto client = make();
    EXPECT_EQ(detail::try_connect(client.get(), address), 0);
    return client;
  }

  const Folder folder;
  const sockaddr_un address = detail::address_of("test", folder / "socket");
  detail::ListeningSocket listener;
};

// Strangers may also keep all threads busy that close files.
TEST_F(ListeningSocket, WaitsForNobodyAtItsEnd) {
  constexpr std::size_t most_threads = 8;
  std::list<LingeringSocket> blocking(most_threads);
  for (LingeringSocket& socket : blocking) detail::close_apart(socket.take());
  LingeringSocket lingers;
  const auto hostile = connected(), honest = connected();
  {
    const spi::UniqueFd file = lingers.take();
    const int number = file.get();
    ASSERT_GT(detail::send_packet(hostile.get(), std::array<std::byte, 8>{}, {&number, 1}, false), 0);
  }
  listener.end();
  pollfd entry{honest.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, -1), 1);  // the watchdog ends it
  EXPECT_NE(entry.revents & POLLHUP, 0) << "clients that were not accepted learn of the end";
  EXPECT_EQ(detail::try_connect(make().get(), address), ECONNREFUSED);
  lingers.let_go();
  for (LingeringSocket& socket : blocking) socket.let_go();
  while (detail::files_to_close() != 0) detail::settle_closes();
  (void)take_reports();  // of threads that were stuck, if it took so long
}

}  // namespace
}  // namespace weir::test
