// SPDX-License-Identifier: Apache-2.0
// A further buffer of memory that the peer knows. channel/send and channel/receive: the work of one side, 64 buffers in
// a packet; receiving includes closing them. channel/alone: both sides, one buffer at a time. Both ends are in this
// thread, and what counts is its processor time. Beside them, on the host: a memfd for each buffer, passed and mapped.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <vector>

#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

using ipc::Channel;

constexpr std::size_t batch = 64, size = 4 * kib;

double worked() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

enum class Side { send, receive, both };

/// Time `sends()` or `receives()` or both, of which each deals with `buffers`.
template <class Sends, class Receives>
void time_sides(benchmark::State& state, Side side, std::size_t buffers, Sends sends, Receives receives) {
  constexpr int untimed = 4;
  for (int i = 0; i < untimed; ++i) sends(), receives();
  for (auto _ : state) {
    const double begin = worked();
    sends();
    const double middle = worked();
    receives();
    const double end = worked();
    state.SetIterationTime(side == Side::send ? middle - begin : end - (side == Side::receive ? middle : begin));
  }
  time_each(state, buffers);
}

void over_channel(benchmark::State& state, const Device& device, Side side, std::size_t buffers) {
  auto [one, other] = Channel::make_sockets();
  Channel here(std::move(one)), there(std::move(other));
  const Stream stream(device), theirs(device);
  const auto pool = make_pool(device, {.exportable = true});
  std::vector<ipc::Parcel> parcels(buffers), received(buffers);
  for (ipc::Parcel& parcel : parcels) parcel.buffer = pool->allocate(size, stream);
  stream.synchronize();
  time_sides(
      state, side, buffers, [&] { here.send(parcels, stream); },
      [&] {
        for (ipc::Parcel& parcel : received) parcel = there.receive(theirs);
        for (ipc::Parcel& parcel : received) parcel.buffer.close();
      });
}

/// A file beside one byte.
class FileMessage {
 public:
  FileMessage() {
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    message_.msg_control = room_.data();
  }
  void send(int socket, int file) {
    message_.msg_controllen = room_.size();
    cmsghdr& head = *CMSG_FIRSTHDR(&message_);
    head.cmsg_level = SOL_SOCKET;
    head.cmsg_type = SCM_RIGHTS;
    head.cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(&head), &file, sizeof file);
    if (::sendmsg(socket, &message_, MSG_NOSIGNAL) < 0) throw std::system_error(errno, std::generic_category(), "sendmsg");
  }
  [[nodiscard]] spi::UniqueFd receive(int socket) {
    message_.msg_controllen = room_.size();
    if (::recvmsg(socket, &message_, MSG_CMSG_CLOEXEC) < 0) throw std::system_error(errno, std::generic_category(), "recvmsg");
    int file = -1;
    if (const cmsghdr* head = CMSG_FIRSTHDR(&message_)) std::memcpy(&file, CMSG_DATA(head), sizeof file);
    return spi::UniqueFd(file);
  }

 private:
  char byte_ = 0;
  iovec part_{&byte_, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room_{};
  msghdr message_{};
};

void by_hand(benchmark::State& state, Side side, std::size_t buffers) {
  const auto [here, there] = Channel::make_sockets();
  std::vector<spi::UniqueFd> files(buffers), received(buffers);
  std::vector<void*> mapped(buffers);
  for (spi::UniqueFd& file : files) {
    file.reset(::memfd_create("buffer", MFD_CLOEXEC));
    if (::ftruncate(file.get(), size) != 0) throw std::system_error(errno, std::generic_category(), "ftruncate");
  }
  FileMessage message;
  time_sides(
      state, side, buffers,
      [&] {
        for (const spi::UniqueFd& file : files) message.send(here.get(), file.get());
      },
      [&] {
        for (std::size_t i = 0; i < buffers; ++i) {
          received[i] = message.receive(there.get());
          mapped[i] = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, received[i].get(), 0);
        }
        for (std::size_t i = 0; i < buffers; ++i) {
          ::munmap(mapped[i], size);
          received[i].reset();
        }
      });
}

void add(const Device& device) {
  const std::string backend(device.backend());
  const auto add_sort = [&](const std::string& what, Side side, std::size_t buffers) {
    add_row(backend + "/channel/" + what + "/weir",
            [=](benchmark::State& state) { over_channel(state, device, side, buffers); }, Timed::by_itself);
    if (backend == "host")
      add_row("host/channel/" + what + "/files",
              [=](benchmark::State& state) { by_hand(state, side, buffers); }, Timed::by_itself);
  };
  add_sort("send", Side::send, batch);
  add_sort("receive", Side::receive, batch);
  add_sort("alone", Side::both, 1);
}

const Suite suite("", add);

}  // namespace
}  // namespace weir::bench
