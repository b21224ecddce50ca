// SPDX-License-Identifier: Apache-2.0
// The page that the peers of one user see: who shares it, what it says of a stream whose host or whose device writes it,
// and when another page takes its place.
#include "ipc/channel/sent_points.hpp"

#include <features.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "expect.hpp"
#include "fds.hpp"
#include "gate.hpp"
#include "ipc/timeline_page.hpp"
#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "threads.hpp"
#include "weir/host.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::test {
namespace {

using detail::page_bytes;
using detail::page_words;
using detail::PagePoint;
using detail::PeerPage;
using detail::channel::SentPoints;
using State = PeerPage::State;

template <class Condition>
void wait_until(Condition holds) {
  while (!holds()) std::this_thread::yield();  // the watchdog ends it if that never is
}

/// A user of whom the library knows nothing yet.
uid_t next_user() {
  static uid_t last = 70'000;
  return ++last;
}

TEST(SentPoints, AreOneForEachUser) {
  const uid_t user = next_user();
  const auto points = SentPoints::of(user);
  EXPECT_EQ(SentPoints::of(user), points);
  EXPECT_NE(SentPoints::of(next_user()), points);
}

TEST(SentPoints, LeaveNothingWhenNobodyNeedsThem) {
  const uid_t user = next_user();
  const auto files = open_fds();
  { const auto points = SentPoints::of(user); }
  EXPECT_FDS(files);
}

#if __GLIBC_PREREQ(2, 33)
TEST(SentPoints, OfManyUsersLeaveNoMemory) {
  { const auto first = SentPoints::of(next_user()); }
  const auto before = ::mallinfo2().uordblks;
  constexpr int users = 1000;
  for (int i = 0; i < users; ++i) EXPECT_NE(SentPoints::of(next_user()), nullptr);
  EXPECT_LT(::mallinfo2().uordblks, before + 16 * users);
}
#endif

TEST(SentPoints, SayWhenAStreamGetsThere) {
  const auto points = SentPoints::of(next_user());
  const PeerPage peer(points->file());
  const Stream stream(host_device());
  Gate gate;
  gate.hold(stream);
  const PagePoint first = points->record(stream);
  EXPECT_EQ(points->record(stream), first) << "the stream has nothing new";
  stream.call([] {});
  const PagePoint second = points->record(stream);
  EXPECT_EQ(second.word, first.word);
  EXPECT_GT(second.value, first.value);
  EXPECT_EQ(peer.look(first), State::pending);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(peer.look(first), State::reached);
  EXPECT_EQ(peer.look(second), State::reached);
}

TEST(SentPoints, AreMadeAnewByAChild) {
  const uid_t user = next_user();
  const auto points = SentPoints::of(user);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(SentPoints::of(user) == points ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the parent goes on writing its own";
  EXPECT_EQ(SentPoints::of(user), points);
}

/// A device of a backend of its own. Its streams store nothing: the test's hand does.
struct WritingDevice final : spi::DeviceState {
  WritingDevice() {
    table = *host_device().state().backend;
    table.name = "writing";
    backend = &table;
  }
  bool reach_host(void* data, std::size_t bytes) override {
    ++asked;
    if (on_asked) on_asked();
    if (short_of_memory) throw Error(Errc::out_of_memory, "short by hand");
    words = static_cast<std::uint64_t*>(data);
    EXPECT_EQ(bytes, page_bytes);
    return reaches;
  }
  spi::Backend table;
  std::uint64_t* words = nullptr;
  int asked = 0;
  bool reaches = true, short_of_memory = false;
  std::function<void()> on_asked;
};

/// Devices are never destroyed.
WritingDevice& new_device() {
  static auto& all = *new std::vector<std::unique_ptr<WritingDevice>>;
  return *all.emplace_back(std::make_unique<WritingDevice>());
}

class DevicePoints : public testing::Test {
 protected:
  explicit DevicePoints(WritingDevice& device = new_device()) : device_(device) {
    state_->behaviour.stores_natively = state_->behaviour.calls_natively = true;
    state_->put(FakeStream::fill());
  }
  void carry_out(const spi::StoreOp& store) { std::atomic_ref(*store.word).store(store.value); }

  WritingDevice& device_;
  const uid_t user_ = next_user();
  std::shared_ptr<SentPoints> points_ = SentPoints::of(user_);
  const PeerPage peer_{points_->file()};
  FakeStream* const state_ = new FakeStream(device_);
  const Stream stream_{spi::Ref<spi::StreamState>::adopt(state_)};
};

TEST_F(DevicePoints, AreStoredByTheDevice) {
  const PagePoint point = points_->record(stream_);
  ASSERT_EQ(state_->stores().size(), 1U);
  const auto store = state_->stores().front();
  EXPECT_EQ(store.word, device_.words + point.word);
  EXPECT_EQ(store.value, point.value);
  EXPECT_EQ(peer_.look(point), State::pending) << "no host writes it";
  carry_out(store);
  EXPECT_EQ(peer_.look(point), State::reached);
  state_->finish(state_->issued());
  EXPECT_TRUE(state_->reached(state_->issued()));
  EXPECT_EQ(points_->record(stream_), point) << "and it goes on saying so";
  EXPECT_EQ(device_.asked, 1);
}

TEST_F(DevicePoints, AreGivenUpWithTheStream) {
  const PagePoint point = points_->record(stream_);
  carry_out(state_->stores().front());
  state_->finish(state_->issued());
  EXPECT_TRUE(state_->reached(state_->issued()));
  state_->put(FakeStream::fill());
  const PagePoint never = points_->record(stream_);
  EXPECT_EQ(peer_.look(never), State::pending);
  state_->break_device();  // which a thread of the library notices
  wait_until([&] { return peer_.look(never) != State::pending; });
  EXPECT_EQ(peer_.look(never), State::given_up);
  EXPECT_EQ(peer_.look(point), State::reached);
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST_F(DevicePoints, AreNotBelievedWhenTheWorkWasNeverReady) {
  const PagePoint point = points_->record(stream_);
  carry_out(state_->stores()[0]);
  state_->put(FakeStream::fill());
  const PagePoint never = points_->record(stream_);
  state_->become_unready();
  carry_out(state_->stores()[1]);
  EXPECT_EQ(peer_.look(point), State::reached);
  EXPECT_EQ(peer_.look(never), State::given_up);
  state_->finish(state_->issued());
  const Stream other(host_device());
  other.call([] {});
  EXPECT_NE(points_->record(other).word, never.word);
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST_F(DevicePoints, AreNotBelievedWhenTheStreamIsLostMeanwhile) {
  state_->behaviour.on_store = [this] { state_->become_unready(); };
  try {
    const PagePoint never = points_->record(stream_);
    carry_out(state_->stores()[0]);
    EXPECT_EQ(peer_.look(never), State::given_up);
  } catch (const Error& error) {  // then nobody hears of the point
    EXPECT_EQ(error.code(), Errc::peer_gone);
  }
  EXPECT_EQ(take_reports().size(), 1U);
}

// Nobody else would ever notice that the device stops.
TEST_F(DevicePoints, AreLookedAfterWhenNobodyNamesTheStream) {
  auto* const state = new FakeStream(device_);
  state->behaviour.foreign = state->behaviour.stores_natively = state->behaviour.calls_natively = true;
  PagePoint never;
  {
    const Stream stream{spi::Ref<spi::StreamState>::adopt(state)};
    state->put(FakeStream::fill());
    never = points_->record(stream);
  }
  EXPECT_EQ(peer_.look(never), State::pending);
  state->break_device();
  wait_until([&] { return peer_.look(never) != State::pending; });
  EXPECT_EQ(peer_.look(never), State::given_up);
  (void)take_reports();
}

TEST_F(DevicePoints, ThatAreRefusedWereNeverGiven) {
  const PagePoint first = points_->record(stream_);
  state_->put(FakeStream::fill());
  state_->refuse_next();
  EXPECT_ERROR(points_->record(stream_), Errc::unsupported, "refused by hand");
  const PagePoint second = points_->record(stream_);
  EXPECT_EQ(second.value, first.value + 1);
  EXPECT_EQ(peer_.look(second), State::pending);
}

// Otherwise memory that a device writes would have to be taken from it again, which waits for all of its work.
TEST_F(DevicePoints, KeepThePageForGood) {
  (void)points_->record(stream_);
  const auto* const page = points_.get();
  points_.reset();
  points_ = SentPoints::of(user_);
  EXPECT_EQ(points_.get(), page);
  (void)points_->record(stream_);
  EXPECT_EQ(device_.asked, 1);
}

TEST_F(DevicePoints, AreTheHostsIfTheDeviceCannot) {
  device_.reaches = false;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(peer_.look(points_->record(stream_)), State::reached) << "the stream calls at once";
    state_->put(FakeStream::fill());
  }
  EXPECT_EQ(state_->stores().size(), 0U);
  EXPECT_EQ(device_.asked, 1);
}

TEST_F(DevicePoints, FailForWantOfMemoryAndComeLater) {
  device_.short_of_memory = true;
  EXPECT_ERROR(points_->record(stream_), Errc::out_of_memory, "short by hand");
  device_.short_of_memory = false;
  (void)points_->record(stream_);
  EXPECT_EQ(state_->stores().size(), 1U);
}

// A driver's failure is reported to the user, who may send something else by then.
TEST_F(DevicePoints, AreGivenWhileADeviceIsAsked) {
  const Stream other(host_device());
  const auto record_another = [&] {
    other.call([] {});
    EXPECT_NE(points_->record(other), PagePoint{});
  };
  device_.on_asked = state_->behaviour.on_store = record_another;
  (void)points_->record(stream_);
  EXPECT_EQ(state_->stores().size(), 1U);
}

TEST_F(DevicePoints, OfSeveralThreadsComeInOrder) {
  constexpr int threads = 4, each = 200;
  {
    std::vector<Thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([this] {
        for (int i = 0; i < each; ++i) {
          state_->put(FakeStream::fill());
          (void)points_->record(stream_);
        }
      });
    }
  }
  const auto stores = state_->stores();
  for (std::size_t i = 1; i < stores.size(); ++i) {
    EXPECT_EQ(stores[i].word, stores[0].word);
    EXPECT_EQ(stores[i].value, stores[i - 1].value + 1);
  }
  EXPECT_GE(stores.size(), static_cast<std::size_t>(each));
}

TEST_F(DevicePoints, OfManyLostStreamsMakeRoomForAnotherPage) {
  const auto lose_one = [&] {
    auto* const state = new FakeStream(device_);
    const Stream stream{spi::Ref<spi::StreamState>::adopt(state)};
    state->behaviour.stores_natively = true;
    state->put(FakeStream::fill());
    const PagePoint never = points_->record(stream);
    state->break_device();
    wait_until([&] { return peer_.look(never) != State::pending; });
  };
  constexpr std::uint32_t many = page_words / 8 * 7;
  for (std::uint32_t i = 0; i < many; ++i) lose_one();
  EXPECT_EQ(SentPoints::of(user_), points_);
  lose_one();
  const auto next = SentPoints::of(user_);
  EXPECT_NE(next, points_);
  EXPECT_EQ(SentPoints::of(user_), next);
  EXPECT_EQ(take_reports().size(), many + 1);
}

}  // namespace
}  // namespace weir::test
