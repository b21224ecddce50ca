// SPDX-License-Identifier: Apache-2.0
// A holder whose process can open no more files.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <list>
#include <string>

#include "folder.hpp"
#include "ipc/channel/few_files.hpp"
#include "ipc/hold/messages.hpp"
#include "ipc/packets.hpp"
#include "threads.hpp"
#include "weir/holder.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

using namespace detail::hold;

// Each says something at once, so that its connection is closed on another thread, and later than the next one comes.
TEST(HolderWithFewFiles, HangsUpEveryClient) {
  const Folder folder;
  const std::string path = folder / "holder";
  ipc::Holder holder(path);
  const Thread thread([&] { holder.run(); });
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  std::list<spi::UniqueFd> clients;
  for (int i = 0; i < 20; ++i) clients.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const Packet hello = encode(Hello{protocol_version, Role::reader, "a"});
  {
    const FewFiles few(0);
    for (const spi::UniqueFd& client : clients) {
      ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
      (void)detail::send_packet(client.get(), hello, {}, false);
    }
    for (const spi::UniqueFd& client : clients) {  // the watchdog ends it
      char byte = 0;
      EXPECT_LE(::recv(client.get(), &byte, 1, 0), 0);
    }
  }
  holder.stop();
}

}  // namespace
}  // namespace weir::test
