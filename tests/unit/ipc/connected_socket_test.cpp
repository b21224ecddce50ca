// SPDX-License-Identifier: Apache-2.0
// The end of a connection in which a peer has left files whose closing blocks. A call that waited for them would be
// ended by the watchdog.
#include "ipc/connected_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <list>
#include <optional>
#include <utility>

#include "base/file_closer.hpp"
#include "busy_pipe.hpp"
#include "ipc/packets.hpp"
#include "lingering_socket.hpp"
#include "sink.hpp"
#include "spawn.hpp"

namespace weir::test {
namespace {

constexpr std::array<std::byte, 100> nonsense{};

class UnreadFiles : public testing::Test {
 protected:
  void TearDown() override {
    blocking_.let_go();
    while (detail::files_to_close() != 0) detail::settle_closes();
  }
  /// Send a packet with the only copy of a file that blocks.
  void send_file(const spi::UniqueFd& socket) {
    const spi::UniqueFd file = blocking_.take();
    const int number = file.get();
    ASSERT_GT(detail::send_packet(socket.get(), nonsense, {&number, 1}, false), 0);
  }

 private:
  BlockingFile blocking_;
};

TEST_F(UnreadFiles, AreNotWaitedFor) {
  auto [mine, peers] = socket_pair(SOCK_SEQPACKET);
  std::optional<detail::ConnectedSocket> socket(std::in_place, std::move(mine));
  send_file(peers);
  socket.reset();
  EXPECT_EQ(detail::send_packet(peers.get(), nonsense, {}, false), -1) << "the connection is hung up at once";
}

// Strangers can keep all threads that close files busy, and connections of others end all the same.
TEST(Connections, InWhichNothingIsLeftNeedNoThread) {
  constexpr std::size_t most_threads = 8;
  std::list<LingeringSocket> blocking(most_threads);
  for (LingeringSocket& socket : blocking) detail::close_apart(socket.take());
  for (const bool hung_up : {false, true}) {
    auto [mine, peers] = socket_pair(SOCK_SEQPACKET);
    const int number = mine.get();
    if (hung_up) peers.reset();
    { const detail::ConnectedSocket socket(std::move(mine)); }
    EXPECT_EQ(::fcntl(number, F_GETFD), -1) << "it is closed";
  }
  // An empty packet is not the end: a file may come with the next one.
  auto [mine, peers] = socket_pair(SOCK_SEQPACKET);
  ASSERT_EQ(::send(peers.get(), nonsense.data(), 0, MSG_NOSIGNAL), 0);
  const int number = mine.get();
  { const detail::ConnectedSocket socket(std::move(mine)); }
  EXPECT_NE(::fcntl(number, F_GETFD), -1) << "a thread closes it";
  for (LingeringSocket& socket : blocking) socket.let_go();
  while (detail::files_to_close() != 0) detail::settle_closes();
  (void)take_reports();  // of threads that were stuck, if it took so long
}

}  // namespace
}  // namespace weir::test
