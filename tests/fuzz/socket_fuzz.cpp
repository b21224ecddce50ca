// SPDX-License-Identifier: Apache-2.0
// ipc::receive from a peer that sends any bytes in any pieces with any files: whole descriptors come out as sent, the
// rest is refused, every file is closed.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "input.hpp"
#include "spawn.hpp"
#include "target.hpp"
#include "weir/error.hpp"
#include "weir/ipc.hpp"

namespace weir::fuzz {
namespace {

using spi::UniqueFd;

/// What the hostile end has sent.
struct Sent {
  std::vector<std::byte> bytes;
  std::size_t files = 0;
};

/// One message of `bytes` with `files` copies of `file`.
void send_piece(int socket, std::span<const std::byte> bytes, int file, std::size_t files, Sent& sent) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  std::array<std::byte, CMSG_SPACE(sizeof(int) * 16)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (files != 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * files);
    auto* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * files);
    for (std::size_t i = 0; i < files; ++i) std::memcpy(CMSG_DATA(header) + i * sizeof(int), &file, sizeof file);
  }
  const auto count = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) return;  // the socket is full
  sent.bytes.insert(sent.bytes.end(), bytes.begin(), bytes.begin() + count);
  sent.files += files;
}

bool same_file(int a, int b) {
  struct stat first {}, second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Take descriptors until the first failure; they are the bytes sent, in order, on a stream.
void receive_all(int socket, int file, const Sent& sent, bool stream) {
  std::size_t at = 0, files = 0;
  for (;;) {
    const ipc::Descriptor got = ipc::receive(socket, std::chrono::milliseconds{0});
    require(got.bytes().size() == ipc::Descriptor::size, "a descriptor of another size");
    require(got.fds().size() <= 4, "more files than a descriptor has");
    files += got.fds().size();
    require(files <= sent.files, "more files came out than went in");
    for (const UniqueFd& fd : got.fds()) {
      require(same_file(fd.get(), file), "another file than was sent");
      require((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0, "a file that children inherit");
    }
    if (!stream) continue;
    require(at + ipc::Descriptor::size <= sent.bytes.size(), "more bytes came out than went in");
    require(std::memcmp(got.bytes().data(), sent.bytes.data() + at, ipc::Descriptor::size) == 0, "other bytes");
    at += ipc::Descriptor::size;
  }
}

void run_socket(std::span<const std::byte> bytes) {
  static const UniqueFd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  constexpr int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
  Input input(bytes);
  const int type = types[input.below(3)];
  const bool hang_up = input.below(2) != 0;
  auto [here, there] = test::socket_pair(type);
  Sent sent;
  while (!input.empty()) {
    const auto files = input.below(9);
    const std::size_t length = input.take<std::uint16_t>() % 600;
    const auto given = input.bytes(length);
    std::vector<std::byte> piece(given.begin(), given.end());
    piece.resize(length, std::byte{0x5a});
    send_piece(here.get(), piece, file.get(), files, sent);
  }
  if (hang_up) here.reset();
  try {
    receive_all(there.get(), file.get(), sent, type == SOCK_STREAM);
  } catch (const Error& error) {
    const auto code = error.code();
    const bool expected = code == Errc::corrupt_descriptor || (hang_up && code == Errc::peer_gone) ||
                          (!hang_up && code == Errc::timed_out) || (type == SOCK_SEQPACKET && code == Errc::peer_gone) ||
                          (type == SOCK_DGRAM && (code == Errc::peer_gone || code == Errc::timed_out));
    require(expected, error.what());
  }
}

const Register registered("socket", &run_socket);

}  // namespace
}  // namespace weir::fuzz
