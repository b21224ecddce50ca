// SPDX-License-Identifier: Apache-2.0
// What servers, holders and buffers report. The sink is the user's, and may call the one of which it is told.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <string>

#include "expect.hpp"
#include "folder.hpp"
#include "inject/allocations.hpp"
#include "on_report.hpp"
#include "threads.hpp"
#include "unit/stream/fake_stream.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/host.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

constexpr std::chrono::seconds limit{30};
constexpr std::size_t most = 300;

/// A buffer that a stream uses. Once it is doomed, the stream is found to be lost when somebody looks.
class BufferInUse {
 public:
  BufferInUse() { use(buffer_); }
  void use(const Buffer& buffer) {
    state_->put(FakeStream::fill());
    buffer.use_on(stream_);
  }
  void doom() { state_->break_device(); }
  [[nodiscard]] FakeStream& state() noexcept { return *state_; }
  [[nodiscard]] const Stream& stream() const noexcept { return stream_; }
  [[nodiscard]] Buffer& buffer() noexcept { return buffer_; }

 private:
  FakeStream* const state_ = new FakeStream;
  const Stream stream_{spi::Ref<spi::StreamState>::adopt(state_)};
  Buffer buffer_ = host::make_shared_resource()->allocate(64, Stream(host_device()));
};

TEST(Sinks, MayAskTheServerThatPublishes) {
  const Folder folder;
  ipc::Server server(folder / "server");
  BufferInUse used;
  used.doom();
  const OnReport taken([&] { EXPECT_EQ(server.stats().names, 0U); });
  EXPECT_ERROR(server.publish("weights", used.buffer(), used.stream()), Errc::device_lost, "broken by hand");
  EXPECT_EQ(taken.count(), 1);
}

TEST(Sinks, MayAskTheServerThatWithdraws) {
  const Folder folder;
  ipc::Server server(folder / "server");
  BufferInUse used;
  Buffer buffer = host::make_shared_resource()->allocate(64, Stream(host_device()));
  server.publish("weights", buffer, Stream(host_device()));
  used.use(buffer);
  buffer.close();  // the last owner is the server
  used.doom();
  const OnReport taken([&] { EXPECT_EQ(server.stats().names, 0U); });
  EXPECT_TRUE(server.withdraw("weights"));
  EXPECT_EQ(taken.count(), 1);
}

// An owner that is not the last has the driver record the uses.
TEST(Sinks, MayCloseAnotherOwnerOfTheBufferThatEnds) {
  BufferInUse used;
  Buffer share = used.buffer().share();
  used.doom();
  const OnReport taken([&] { share.close(); });
  used.buffer().close();
  EXPECT_EQ(taken.count(), 1);
  EXPECT_TRUE(share.is_closed());
}

// At the fork another thread is inside the record of uses, so the child makes a new one. This asks every stream.
TEST(Sinks, MayUseTheBufferWhoseUsesAChildRecordsAnew) {
  constexpr unsigned certainly_hung = 20;  // seconds
  BufferInUse used;
  std::promise<void> inside, go;
  const std::function<void()> stop = [&, goes = go.get_future().share()] {
    inside.set_value();
    goes.wait();
  };
  auto* const foreign = new FakeStream;
  const Stream named{spi::Ref<spi::StreamState>::adopt(foreign)};
  foreign->behaviour.foreign = true;
  Buffer share = used.buffer().share();
  const Thread records([&] {
    const Stream other(host_device());
    at_next_allocation(stop);  // that of the record for this stream
    share.use_on(other);
  });
  const OnLeaving goes_on([&] { go.set_value(); });
  inside.get_future().wait();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(certainly_hung);
    foreign->behaviour.on_mark = [foreign] { foreign->lose_by_hand(); };
    const OnReport taken([&] {
      (void)Stream(host_device());
      used.buffer().share().close();
    });
    used.buffer().use_on(Stream(host_device()));
    ::_exit(taken.count() == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  used.state().finish(1);
}

/// Asks a holder at each report.
class Asking {
 public:
  explicit Asking(const ipc::Holder& holder) {
    asked_ = &holder;
    count_ = 0;
    before_ = set_failure_sink([](const Failure&) noexcept {
      (void)asked_->stats();
      ++count_;
    });
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() { set_failure_sink(before_); }
  [[nodiscard]] static int count() { return count_; }

 private:
  FailureSink before_;
  static inline const ipc::Holder* asked_ = nullptr;
  static inline std::atomic<int> count_{0};
};

// Memory runs out in the holder's thread.
TEST(Sinks, MayAskTheHolder) {
  const Folder folder;
  ipc::Holder holder(folder / "holder");
  const Asking asking(holder);
  const Thread runs([&] { holder.run(); });
  const OnLeaving stops([&] { holder.stop(); });
  const Stream stream(host_device());
  const Buffer buffer = host::make_shared_resource()->allocate(64, stream);
  FailingAllocations injector(host_device(), nullptr, Whose::others);
  std::size_t nth = 1;
  for (bool more = true; more && nth < most; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    injector.arm(nth, 0);
    try {
      ipc::SetWriter writer(folder / "holder", "model");
      writer.add("weights", buffer.view(u8, {64}), stream);
      writer.commit(limit);
      writer.remove(limit);
    } catch (const std::exception&) {  // it was cut off
    }
    more = injector.disarm().has_value();
  }
  EXPECT_GT(asking.count(), 3) << "clients were cut off";
  EXPECT_LT(nth, most) << "it never ends";
}

}  // namespace
}  // namespace weir::test
