// SPDX-License-Identifier: Apache-2.0
// A process that was lent host memory for reading alone and wants to write it: attacker_child <who>. It speaks the
// bytes of a channel without the library. The socket of the channel comes as the file of a descriptor on descriptor 3.
//   self     stays who it is
//   nobody   becomes user 65534 first, without capabilities; says "no" if it may not
// It says "reads" once it has read the memory, and then in one line each way that led to a write.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "crash.hpp"
#include "spawn.hpp"
#include "weir/ipc.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
constexpr std::size_t page = 4096;

bool become_nobody() {
  constexpr unsigned nobody = 65534;
  if (::setgid(nobody) != 0 || ::setuid(nobody) != 0) return false;
  return ::prctl(PR_SET_DUMPABLE, 1) == 0;  // or else /proc/self belongs to root
}

// Greet as a channel does, and return the file that comes beside the first packet which has one.
spi::UniqueFd take_file(int socket) {
  const std::array<std::uint32_t, 4> hello{2U << 16U | 1U, 4, 16, 0};
  if (::send(socket, hello.data(), sizeof hello, MSG_NOSIGNAL) != sizeof hello) throw std::runtime_error("send");
  for (;;) {
    std::vector<char> bytes(1 << 16);
    iovec part{bytes.data(), bytes.size()};
    std::array<char, CMSG_SPACE(64 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket, &message, 0) <= 0) throw std::runtime_error("the channel is closed");
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS) continue;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(header), sizeof file);
    return spi::UniqueFd(file);
  }
}

/// A mapping of the first page, or none.
void* map(int file, int rights) { return ::mmap(nullptr, page, rights, MAP_SHARED, file, 0); }

bool maps_writable(int file) {
  void* const at = map(file, PROT_READ | PROT_WRITE);
  if (at == MAP_FAILED) return false;
  static_cast<volatile char*>(at)[0] = 'x';
  return true;
}

bool becomes_writable(int file) {
  void* const at = map(file, PROT_READ);
  return at != MAP_FAILED && ::mprotect(at, page, PROT_READ | PROT_WRITE) == 0;
}

spi::UniqueFd reopen(int file, int how) {
  return spi::UniqueFd(::open(("/proc/self/fd/" + std::to_string(file)).c_str(), how | O_CLOEXEC));
}

bool maps_writable_anew(int file) {
  const spi::UniqueFd again = reopen(file, O_RDWR);
  return again && maps_writable(again.get());
}

std::string attack(int file) {
  std::string led;
  const auto note = [&](const char* way, bool wrote) { led += wrote ? std::string(" ") + way : ""; };
  note("map", maps_writable(file));
  note("mprotect", becomes_writable(file));
  note("pwrite", ::pwrite(file, "x", 1, 0) == 1);
  note("ftruncate", ::ftruncate(file, 0) == 0);
  note("reopen", maps_writable_anew(file));
  note("fchmod", ::fchmod(file, 0666) == 0 && maps_writable_anew(file));
  return "led:" + led;
}

std::string run(const std::string& who) {
  const ipc::Descriptor carrier = ipc::receive(lines, std::chrono::seconds{30});
  if (who == "nobody" && !become_nobody()) return "no";
  const spi::UniqueFd file = take_file(carrier.fds().front().get());
  const void* const at = map(file.get(), PROT_READ);
  if (at == MAP_FAILED || static_cast<const char*>(at)[0] != 'r') throw std::runtime_error("cannot read");
  if (!reopen(file.get(), O_RDONLY)) throw std::runtime_error("has no /proc to attack by");
  write_line(lines, "reads");
  return attack(file.get());
}

}  // namespace

int main(int argc, char** argv) {
  print_crashes();
  if (argc != 2) return 2;
  std::string said;
  try {
    said = run(argv[1]);
  } catch (const std::exception& error) {
    said = std::string("throws: ") + error.what();
  }
  write_line(lines, said);
  return 0;
}
