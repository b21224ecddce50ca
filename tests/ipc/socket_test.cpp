// SPDX-License-Identifier: Apache-2.0
// Descriptors on their way: whole, in pieces, cut short, too large, with too many files, from nobody.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "memory.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using spi::UniqueFd;

class Socket : public testing::TestWithParam<int> {
 protected:
  void TearDown() override {
    ends_.first.reset();
    ends_.second.reset();
    EXPECT_FDS(before_);
  }

  /// Bytes and copies of `fd` in one message, past weir.
  void send_raw(std::size_t bytes, std::size_t files, int fd = STDIN_FILENO) {
    Bytes content(bytes);
    iovec io{content.data(), bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)] = {};
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    if (files > 0) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * files);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * files);
      for (std::size_t i = 0; i < files; ++i) std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof fd);
    }
    ASSERT_EQ(sendmsg(here(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  [[nodiscard]] static ipc::Descriptor sample(const Stream& stream) {
    return host::make_shared_resource()->allocate(100, stream).ipc_descriptor(stream);
  }
  [[nodiscard]] int here() const { return ends_.first.get(); }
  [[nodiscard]] int there() const { return ends_.second.get(); }
  void close_here() { ends_.first.reset(); }
  void close_there() { ends_.second.reset(); }

  std::size_t before_ = open_fds();
  std::pair<UniqueFd, UniqueFd> ends_ = socket_pair(GetParam());
  Stream stream{host_device()};
};
INSTANTIATE_TEST_SUITE_P(Every, Socket, testing::Values(SOCK_STREAM, SOCK_SEQPACKET),
                         [](const auto& chosen) { return chosen.param == SOCK_STREAM ? "stream" : "seqpacket"; });

TEST_P(Socket, CarriesBytesAndFiles) {
  const ipc::Descriptor sent = sample(stream);
  ipc::send(here(), sent);
  ipc::send(here(), sent);
  for (int i = 0; i < 2; ++i) {
    const ipc::Descriptor received = ipc::receive(there(), 1s);
    EXPECT_BYTES(received.bytes(), sent.bytes());
    ASSERT_EQ(received.fds().size(), sent.fds().size());
    EXPECT_NE(fcntl(received.fds()[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_P(Socket, TimesOutTruthfully) {
  EXPECT_ERROR(ipc::receive(there(), 0ms), Errc::timed_out, "");
  EXPECT_ERROR(ipc::receive(there(), 10ms), Errc::timed_out, "");
  ipc::send(here(), sample(stream));
  EXPECT_EQ(ipc::receive(there(), 10s).bytes().size(), ipc::Descriptor::size);
}

TEST_P(Socket, WaitsWithoutLimit) {
  Thread sender([&] { ipc::send(here(), sample(stream)); });
  EXPECT_FALSE(ipc::receive(there()).fds().empty());
  sender.join();
}

TEST_P(Socket, ClosedEndsArePeersGone) {
  close_here();
  EXPECT_ERROR(ipc::receive(there(), 1s), Errc::peer_gone, "");
  close_there();
  ends_ = socket_pair(GetParam());
  close_there();
  EXPECT_ERROR(ipc::send(here(), sample(stream)), Errc::peer_gone, "");
}

TEST_P(Socket, CutShort) {
  send_raw(100, 1);
  close_here();
  EXPECT_ERROR(ipc::receive(there(), 1s), Errc::corrupt_descriptor, "100");
}

TEST_P(Socket, WhatComesBehindIsTheNextCalls) {
  send_raw(100, 1);
  send_raw(ipc::Descriptor::size - 100, 0);
  send_raw(ipc::Descriptor::size, 1);
  for (int i = 0; i < 2; ++i) {
    const ipc::Descriptor received = ipc::receive(there(), 1s);
    EXPECT_EQ(received.bytes().size(), ipc::Descriptor::size);
    EXPECT_EQ(received.fds().size(), 1U);
  }
}

TEST_P(Socket, TooManyFiles) {
  send_raw(ipc::Descriptor::size, 50);
  EXPECT_ERROR(ipc::receive(there(), 1s), Errc::corrupt_descriptor, "");
}

TEST_P(Socket, TooManyFilesInPieces) {
  if (GetParam() != SOCK_STREAM) return;
  for (int i = 0; i < 5; ++i) send_raw(1, 1);
  EXPECT_ERROR(ipc::receive(there(), 1s), Errc::corrupt_descriptor, "more than 4") << "they must not pile up";
}

TEST_P(Socket, GarbageIsRefusedByOpen) {
  send_raw(ipc::Descriptor::size, 1);
  EXPECT_ERROR(ipc::open(ipc::receive(there(), 1s), stream), Errc::corrupt_descriptor, "magic");
}

TEST_P(Socket, LargerMessages) {
  if (GetParam() != SOCK_SEQPACKET) return;  // a stream has no messages
  send_raw(ipc::Descriptor::size + 1, 1);
  EXPECT_ERROR(ipc::receive(there(), 1s), Errc::corrupt_descriptor, "larger");
}

TEST_P(Socket, InPieces) {
  if (GetParam() != SOCK_STREAM) return;
  const ipc::Descriptor sent = sample(stream);
  for (std::size_t at = 0; at < sent.bytes().size(); at += 64) {
    ASSERT_EQ(::send(here(), sent.bytes().data() + at, 64, 0), 64);
  }
  const ipc::Descriptor received = ipc::receive(there(), 1s);
  EXPECT_BYTES(received.bytes(), sent.bytes());
  EXPECT_TRUE(received.fds().empty());
}

// The kernel adds what is no file, and a file that is nobody's.
TEST_P(Socket, WhatTheReceiverAskedForBesidesIsNoFileOfTheDescriptor) {
  constexpr int pass_pidfd = 76;  // SO_PASSPIDFD, which not every system's headers have, nor every kernel
  const int yes = 1;
  const ipc::Descriptor sent = sample(stream);
  for (const int option : {SO_PASSCRED, pass_pidfd}) {
    if (setsockopt(there(), SOL_SOCKET, option, &yes, sizeof yes) != 0) continue;
    ipc::send(here(), sent);
    const ipc::Descriptor received = ipc::receive(there(), 1s);
    EXPECT_BYTES(received.bytes(), sent.bytes());
    EXPECT_EQ(received.fds().size(), sent.fds().size());
  }
}

TEST_P(Socket, ThingsThatAreNoSockets) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const ipc::Descriptor descriptor = sample(stream);
  EXPECT_THROW(ipc::send(null.get(), descriptor), Error);
  EXPECT_THROW((void)ipc::receive(null.get(), 10ms), Error);
  EXPECT_THROW(ipc::send(-1, descriptor), Error);
  EXPECT_THROW((void)ipc::receive(-1, 10ms), Error);
}

TEST_P(Socket, MoreFilesThanADescriptorHasAreNotSent) {
  std::vector<UniqueFd> fds;
  const ipc::Descriptor one = sample(stream);
  for (int i = 0; i < 9; ++i) fds.push_back(one.fds()[0].duplicate());
  EXPECT_ERROR(ipc::send(here(), ipc::Descriptor(one.bytes(), std::move(fds))), Errc::invalid_argument, "4");
}

}  // namespace
}  // namespace weir::test
