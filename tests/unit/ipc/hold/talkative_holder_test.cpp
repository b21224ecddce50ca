// SPDX-License-Identifier: Apache-2.0
// A holder that sends sets that nobody asked for. What has come before the time limit is taken, and not without end.

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "folder.hpp"
#include "ipc/hold/messages.hpp"
#include "ipc/packets.hpp"
#include "threads.hpp"
#include "weir/held_set.hpp"
#include "weir/host.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

using namespace detail::hold;
using namespace std::chrono_literals;

constexpr auto limit = 30s;

TEST(TalkativeHolder, SetsOfOtherQuestionsEndWithTheTimeLimit) {
  const Folder folder;
  const std::string path = folder / "holder";
  const spi::UniqueFd listens(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listens.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listens.get(), 1), 0);
  std::promise<void> said;
  const Thread holder([&] {
    const spi::UniqueFd socket(::accept4(listens.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Packet heard(largest_packet);
    EXPECT_GT(::recv(socket.get(), heard.data(), heard.size(), 0), 0);
    const auto say = [&](const Packet& packet) {
      EXPECT_GE(detail::send_packet(socket.get(), packet, {}, true), 0);
    };
    say(encode(Welcome{protocol_version}));
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) say(encode(Set{0, epoch, 0, 0, false}));
    say(encode(Set{1, 4, 0, 0, false}));
    said.set_value();
    while (::recv(socket.get(), heard.data(), heard.size(), 0) > 0) {
    }
  });
  const Stream stream(host_device());
  ipc::SetReader reader(path, "a");
  ASSERT_EQ(said.get_future().wait_for(limit), std::future_status::ready);
  EXPECT_ERROR(reader.open(stream, 0ms), Errc::timed_out, "all of the set in time");
  EXPECT_EQ(reader.open(stream, limit).epoch, 4U) << "what was asked for is still on its way";
}

}  // namespace
}  // namespace weir::test
