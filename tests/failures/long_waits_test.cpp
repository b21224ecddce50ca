// SPDX-License-Identifier: Apache-2.0
// Time limits that are longer than one call of the system can wait, and those of calls that signals interrupt.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "expect.hpp"
#include "folder.hpp"
#include "inject/system_calls.hpp"
#include "threads.hpp"
#include "weir/client.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

constexpr std::chrono::milliseconds month = std::chrono::hours(24 * 30);

class LongWaits : public testing::Test {
 protected:
  ~LongWaits() override { ended_early = 0; }

  /// Have the next wait of this thread end early; and then do what it waits for.
  static Thread meanwhile(std::function<void()> what) {
    ended_early = 1;
    return Thread([what = std::move(what)] {
      while (ended_early != 0) std::this_thread::yield();
      what();
    });
  }

  const Folder folder;
  const Stream stream{host_device()};
  const Buffer buffer = host::make_shared_resource()->allocate(64, stream);
};

TEST_F(LongWaits, ForDescriptors) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const spi::UniqueFd here(ends[0]), there(ends[1]);
  const Thread sends = meanwhile([&] { ipc::send(there.get(), buffer.ipc_descriptor(stream)); });
  EXPECT_NO_THROW((void)ipc::receive(here.get(), month));
}

TEST_F(LongWaits, ForServers) {
  ipc::Server server(folder / "server");
  ended_early = 1;
  ipc::Client client(folder / "server", month);
  auto news = client.subscribe("*", month);
  const Thread publishes = meanwhile([&] { server.publish("a", buffer, stream); });
  EXPECT_NO_THROW((void)news.next(month));
}

TEST_F(LongWaits, ForHolders) {
  ipc::Holder holder(folder / "holder");
  const Thread serves([&] { holder.run(); });
  const struct Stops {
    ~Stops() { holder.stop(); }
    ipc::Holder& holder;
  } stops{holder};
  ipc::SetWriter writer(folder / "holder", "set");
  writer.add("a", buffer.view(u8, {64}), stream);
  ended_early = 1;
  ipc::SetReader reader(folder / "holder", "set", {.timeout = month});
  const Thread commits = meanwhile([&] { (void)writer.commit(); });
  EXPECT_EQ(reader.open(stream, month).epoch, 1U);
}

// As a timer does that sends a signal more often than the kernel's clock ticks.
TEST(InterruptedWaits, EndWithTheirTimeLimit) {
  const Folder folder;
  const ipc::Server server(folder / "server");
  interrupted = 1 << 20;
  EXPECT_ERROR(ipc::Client(folder / "server", std::chrono::milliseconds(5)), Errc::timed_out, "did not answer in time");
  EXPECT_GT(interrupted.exchange(0), 0);
}

}  // namespace
}  // namespace weir::test
