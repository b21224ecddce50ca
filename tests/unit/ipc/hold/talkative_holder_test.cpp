// SPDX-License-Identifier: Apache-2.0
// A holder that means harm. It sends sets that nobody asked for: what has come before the time limit is taken, and not
// without end. Or it keeps the pipe of a lease busy.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "busy_pipe.hpp"
#include "expect.hpp"
#include "folder.hpp"
#include "ipc/hold/messages.hpp"
#include "ipc/packets.hpp"
#include "threads.hpp"
#include "weir/held_set.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

using namespace detail::hold;
using namespace std::chrono_literals;

constexpr auto limit = 30s;

/// Takes one connection at a time.
class TalkativeHolder : public testing::Test {
 protected:
  void SetUp() override {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(listens_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listens_.get(), 1), 0);
  }
  // These are called by the holder's thread.
  void hang_up() { socket_.reset(); }
  void welcome() {
    socket_ = spi::UniqueFd(::accept4(listens_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::vector<spi::StrangerFd> files;
    EXPECT_NE(hear(files), 0U);
    say(encode(Welcome{protocol_version}));
  }
  void say(const Packet& packet) const { EXPECT_GE(detail::send_packet(socket_.get(), packet, {}, true), 0); }
  /// Return the size of the packet that came; 0 when the other side is gone.
  std::size_t hear(std::vector<spi::StrangerFd>& files) {
    heard.resize(largest_packet);
    files.reserve(detail::most_sent_files);
    pollfd entry{socket_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, -1), 1);
    const auto came = detail::receive_packet(socket_.get(), heard, files);
    heard.resize(came.bytes > 0 ? static_cast<std::size_t>(came.bytes) : 0);
    return heard.size();
  }

  const Folder folder_;
  const std::string path = folder_ / "holder";
  const Stream stream{host_device()};
  Packet heard;

 private:
  const spi::UniqueFd listens_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  spi::UniqueFd socket_;
};

TEST_F(TalkativeHolder, SetsOfOtherQuestionsEndWithTheTimeLimit) {
  std::promise<void> said;
  const Thread holder([&] {
    welcome();
    for (std::uint64_t epoch = 1; epoch <= 64; ++epoch) say(encode(Set{0, epoch, 0, 0, false}));
    say(encode(Set{1, 65, 0, 0, false}));
    said.set_value();
    std::vector<spi::StrangerFd> files;
    while (hear(files) != 0) {
    }
  });
  ipc::SetReader reader(path, "a");
  ASSERT_EQ(said.get_future().wait_for(limit), std::future_status::ready);
  EXPECT_ERROR(reader.open(stream, 0ms), Errc::timed_out, "all of the set in time");
  EXPECT_EQ(reader.open(stream, limit).epoch, 65U) << "what was asked for is still on its way";
}

// A holder has no patience for a reader that takes nothing in the middle of a set, and this one was told to come again.
TEST_F(TalkativeHolder, IsAskedAgainByAReaderWhoseTimeWasOver) {
  std::promise<void> timed_out, gone;
  const Thread holder([&] {
    welcome();
    std::vector<spi::StrangerFd> files;
    EXPECT_NE(hear(files), 0U);
    say(encode(Set{1, 7, 0, 1, false}));
    timed_out.get_future().wait();
    hang_up();
    gone.set_value();
    welcome();
    EXPECT_NE(hear(files), 0U);
    say(encode(Set{1, 8, 0, 0, false}));
    hang_up();
  });
  ipc::SetReader reader(path, "a");
  EXPECT_ERROR(reader.open(stream, 20ms), Errc::timed_out, "in time");
  timed_out.set_value();
  ASSERT_EQ(gone.get_future().wait_for(limit), std::future_status::ready);
  EXPECT_EQ(reader.open(stream, limit).epoch, 8U);
  EXPECT_ERROR(reader.open(stream, limit), Errc::peer_gone, "hung up");
}

// It goes on listening, so its clients need no other holder.
TEST_F(TalkativeHolder, MayHangUpAndLive) {
  const Thread holder([&] {
    welcome();
    std::vector<spi::StrangerFd> files;
    EXPECT_NE(hear(files), 0U);
    hang_up();
  });
  ipc::SetWriter writer(path, "a");
  EXPECT_ERROR(writer.commit(limit), Errc::peer_gone, "it hung up, because it has ended, or could not serve");
}

// The writer's copy of the lease is the last of the file that it made; the holder has one that it opened again.
TEST_F(TalkativeHolder, MayKeepALeaseBusy) {
  std::promise<void> committed;
  const Thread holder([&] {
    welcome();
    std::vector<spi::StrangerFd> files;
    do {
      files.clear();
      ASSERT_NE(hear(files), 0U);
    } while (!std::holds_alternative<Commit>(decode(heard)));
    ASSERT_EQ(files.size(), 1U);
    spi::UniqueFd lease = files.front().trust();
    spi::UniqueFd reads = reopened(lease.get(), O_RDONLY);
    ASSERT_EQ(::write(lease.get(), "x", 1), 1);
    BusyPipe busy(std::move(reads));
    lease.reset();
    say(encode(Committed{1}));
    committed.get_future().wait();  // the watchdog ends it if the writer hangs
  });
  const ResourcePtr pool =
      make_pool(make_resource(host_device(), MemoryKind::shared, {.exportable = true}), {.exportable = true});
  const Buffer buffer = pool->allocate(1000, stream);
  ipc::SetWriter writer(path, "a");
  writer.add("tensor", buffer.view(u8, {1000}), stream);
  EXPECT_EQ(writer.commit(limit), 1U);
  committed.set_value();
}

}  // namespace
}  // namespace weir::test
