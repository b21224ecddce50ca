// SPDX-License-Identifier: Apache-2.0
// A channel whose peer sends any page, and writes into it what it likes. What is no page cuts the peer off. What stands
// in a page costs nobody but those that wait for it.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "few_files.hpp"
#include "gate.hpp"
#include "hostile_peer.hpp"
#include "ipc/channel/sent_points.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using detail::page_bytes;
using detail::page_values;
using detail::page_words;
using detail::PagePoint;

constexpr auto limit = time_limit;
constexpr int right_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/// A page that is right in form, and has no honest owner.
class LyingPage {
 public:
  LyingPage() : file_(memory_file(page_bytes, 0)) {
    void* const data = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    EXPECT_NE(data, MAP_FAILED);
    words_ = static_cast<std::uint64_t*>(data);
    EXPECT_EQ(::fcntl(file_.get(), F_ADD_SEALS, right_seals), 0);
  }
  LyingPage(const LyingPage&) = delete;
  LyingPage& operator=(const LyingPage&) = delete;
  ~LyingPage() { (void)::munmap(words_, page_bytes); }
  [[nodiscard]] int file() const { return file_.get(); }
  /// Write a word, or the end of the one that stands page_words before it, and wake nobody.
  void write(std::uint32_t word, std::uint64_t value) { std::atomic_ref(words_[word]).store(value); }

 private:
  spi::UniqueFd file_;
  std::uint64_t* words_ = nullptr;
};

class HostilePage : public HostilePeer {
 protected:
  // All channels to one user share a page. What is left of earlier tests has to end first.
  HostilePage() {
    const std::weak_ptr<const detail::channel::SentPoints> page = detail::channel::SentPoints::of(::geteuid());
    while (!page.expired()) std::this_thread::yield();
  }
  /// Tell of the page, and lend buffers of 8 bytes that wait for these points.
  void lend(const LyingPage& page, const std::vector<PagePoint>& points) {
    peer_.greet();
    const auto more = [&](PacketWriter& packet) {
      ASSERT_TRUE(packet.add(Page{}));
      for (std::size_t i = 0; i < points.size(); ++i) ASSERT_TRUE(packet.add(Grant{i, 1, 8 * i, 8, points[i], {}}));
    };
    say_behind_a_segment(more, {page.file()});
  }
  void expect_refused(const spi::UniqueFd& file, std::string_view why) {
    peer_.greet();
    say_behind_a_segment([](PacketWriter& packet) { ASSERT_TRUE(packet.add(Page{})); }, {file.get()});
    expect_cut_off(why);
  }

  LyingPage page_;
};

TEST_F(HostilePage, IsReachedWithoutAWake) {
  lend(page_, {{7, 3}});
  const Buffer buffer = channel_.receive(stream_, limit).buffer;
  const Event ready = stream_.record();
  EXPECT_FALSE(ready.done());
  page_.write(7, 2);
  EXPECT_EQ(ready.wait(std::chrono::milliseconds{5}), WaitStatus::timeout);
  page_.write(7, 3);
  EXPECT_EQ(ready.wait(limit), WaitStatus::ready);
}

TEST_F(HostilePage, OfAPassedPointHoldsNobodyBack) {
  page_.write(7, 3);
  lend(page_, {{7, 3}, {7, 1}, {}});
  for (int i = 0; i < 3; ++i) {
    const Buffer buffer = channel_.receive(stream_, limit).buffer;
    EXPECT_TRUE(stream_.done());
  }
}

TEST_F(HostilePage, MayGoBack) {
  page_.write(7, 5);
  lend(page_, {{7, 3}, {7, 4}});
  const Buffer first = channel_.receive(stream_, limit).buffer;
  EXPECT_TRUE(stream_.done());
  page_.write(7, 1);
  EXPECT_TRUE(stream_.done()) << "what was reached stays so";
  const Stream other(host_device());
  const Buffer second = channel_.receive(other, limit).buffer;  // found reached when it came
  EXPECT_TRUE(other.done());
}

TEST_F(HostilePage, MayGiveUp) {
  page_.write(7, 3);
  page_.write(page_words + 7, 4);
  lend(page_, {{7, 4}, {7, 3}});
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::peer_gone, "the peer's stream was lost");
  const Buffer buffer = channel_.receive(stream_, limit).buffer;
  EXPECT_TRUE(stream_.done()) << "the stream went on";
}

TEST_F(HostilePage, EndsWithItsConnection) {
  lend(page_, {{7, 1}, {7, 1}, {8, 1}, {}});
  const Stream waiting(host_device());
  const Buffer first = channel_.receive(waiting, limit).buffer;
  const Event ready = waiting.record();
  EXPECT_EQ(ready.wait(std::chrono::milliseconds{5}), WaitStatus::timeout);
  page_.write(8, 1);
  peer_.leave();
  EXPECT_EQ(ready.wait(limit), WaitStatus::lost);
  EXPECT_ERROR(waiting.synchronize(), Errc::peer_gone, "the peer ended before its work");
  EXPECT_EQ(await_reports(2).size(), 2U) << "the point, and the stream that waited for it";
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::peer_gone, "the peer ended before its work");
  for (int i = 0; i < 2; ++i) {  // reached before the end, and without a point
    const Buffer buffer = channel_.receive(stream_, limit).buffer;
    EXPECT_TRUE(stream_.done()) << "the buffer that was lost is no matter of this stream";
  }
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::peer_gone, "the other process is gone");
}

// Whoever waits for a stream that waits for a dead process is told, although the stream's own process lives.
TEST_F(HostilePage, TakesTheStreamsOfOthersAlong) {
  lend(page_, {{7, 1}});
  const Buffer buffer = channel_.receive(stream_, limit).buffer;
  auto [one, other] = ipc::Channel::make_sockets();
  ipc::Channel here(std::move(one)), there(std::move(other));
  here.send(shared(), stream_, {}, limit);
  const Stream third(host_device());
  const Buffer borrowed = there.receive(third, limit).buffer;
  const Event end = third.record();
  EXPECT_EQ(end.wait(std::chrono::milliseconds{5}), WaitStatus::timeout);
  peer_.leave();
  EXPECT_EQ(end.wait(limit), WaitStatus::lost);
  EXPECT_ERROR(third.synchronize(), Errc::peer_gone, "the peer's stream was lost");
  EXPECT_EQ(await_reports(4).size(), 4U) << "two points, and the streams that waited for them";
}

TEST_F(HostilePage, ThatIsCutOffIsNotWaitedFor) {
  lend(page_, {{7, 1}});
  const Buffer buffer = channel_.receive(stream_, limit).buffer;
  const Event ready = stream_.record();
  peer_.say(pattern(100, 1));
  EXPECT_ERROR(channel_.receive(Stream(host_device()), limit), Errc::corrupt_descriptor, "broke the protocol");
  EXPECT_EQ(ready.wait(limit), WaitStatus::lost);
  EXPECT_EQ(await_reports(2).size(), 2U);
}

TEST_F(HostilePage, ComesOnce) {
  lend(page_, {});
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Page{}));
  const int file = page_.file();
  peer_.say(packet, {&file, 1});
  expect_cut_off("a second page");
}

TEST_F(HostilePage, IsAMemfd) { expect_refused(spi::UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), "not a memfd"); }
TEST_F(HostilePage, IsSealed) { expect_refused(memory_file(page_bytes), "not sealed"); }
TEST_F(HostilePage, IsNotShort) { expect_refused(memory_file(0, right_seals), "has 0 bytes"); }
TEST_F(HostilePage, IsNotLong) { expect_refused(memory_file(std::size_t{1} << 40U, right_seals), "bytes, not 8192"); }

TEST_F(HostilePage, HasNoOtherWords) {
  lend(page_, {{page_words, 1}});
  expect_cut_off("word 512 of a page");
}

TEST_F(HostilePage, HasNoOtherValues) {
  lend(page_, {{0, page_values}});
  expect_cut_off("a point that no page can hold");
}

// The channel tells of its own page once, whatever is sent behind work; and the peer gets no file for each buffer.
TEST_F(HostilePage, IsTheOnlyFileOfManyPoints) {
  constexpr int count = 1000;
  peer_.greet(count + 2);
  Gate gate;
  gate.hold(stream_);
  Buffer buffer = shared();
  PagePoint last;
  for (int i = 0; i < count; ++i) {
    buffer.fill(std::uint8_t{1}, stream_);
    channel_.send(buffer, stream_, {}, limit);
    const PagePoint ready = peer_.next_grant().ready;
    if (i != 0) {
      EXPECT_EQ(ready, (PagePoint{last.word, last.value + 1}));
    }
    last = ready;
  }
  EXPECT_EQ(peer_.files(), 2U) << "of the segment, and of the page";
  channel_.send(buffer, stream_, {}, limit);
  EXPECT_EQ(peer_.next_grant().ready, last) << "the stream stands where it stood";
  gate.open();
  stream_.synchronize();
  channel_.send(buffer, stream_, {}, limit);
  EXPECT_EQ(peer_.next_grant().ready, PagePoint{}) << "the work is complete";
}

TEST_F(HostilePage, ThatCannotBeMadeIsNotMissed) {
  peer_.greet();
  const Buffer buffer = shared();
  channel_.send(buffer, stream_, {}, limit);
  (void)peer_.next_grant();
  Gate gate;
  gate.hold(stream_);
  for (const std::size_t left : {0U, 1U}) {  // for the page, and for the copy that goes to the peer
    const FewFiles few(left);
    EXPECT_THROW(channel_.send(buffer, stream_, {}, limit), Error);
    EXPECT_EQ(channel_.stats().lent, 1U);
  }
  channel_.send(buffer, stream_, {}, limit);
  EXPECT_EQ(peer_.next_grant().ready, (PagePoint{0, 1}));
  EXPECT_EQ(peer_.files(), 2U);
  gate.open();
  stream_.synchronize();
}

TEST_F(HostilePage, HasAWordForEachStreamThatIsAtWork) {
  peer_.greet(4 * page_words);
  const Buffer buffer = shared();
  Gate gate;
  std::vector<Stream> streams;
  for (std::uint32_t i = 0; i < page_words; ++i) {
    streams.emplace_back(host_device());
    gate.hold(streams.back());
    channel_.send(buffer, streams.back(), {}, limit);
    EXPECT_EQ(peer_.next_grant().ready, (PagePoint{i, 1}));
  }
  const Stream further(host_device());
  gate.hold(further);
  EXPECT_ERROR(channel_.send(buffer, further, {}, limit), Errc::unsupported, "512 other streams");
  EXPECT_EQ(channel_.stats().lent, page_words) << "the call that throws has sent nothing";
  gate.open();
  for (const Stream& stream : streams) stream.synchronize();
  Gate again;
  again.hold(further);
  channel_.send(buffer, further, {}, limit);
  const PagePoint ready = peer_.next_grant().ready;
  EXPECT_LT(ready.word, page_words);
  EXPECT_EQ(ready.value, 2U);
  again.open();
  further.synchronize();
}

}  // namespace
}  // namespace weir::test
