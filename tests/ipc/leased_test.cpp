// SPDX-License-Identifier: Apache-2.0
// Who uses memory of a resource: what statistics, dumps and errors say of it, and the waits for it.

#include "weir/leases.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fixture.hpp"
#include "settle.hpp"
#include "sleeping.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/channel.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/segment.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Channel;

const std::chrono::seconds limit = answer_limit();
constexpr auto for_ever = 100h;  // the watchdog ends what waits in vain
constexpr std::size_t size = 1000;

/// What the statistics say: all that is leased, and what is closed here.
struct Figures {
  std::size_t buffers, bytes, closed_buffers, closed_bytes;
  friend bool operator==(const Figures&, const Figures&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Figures& of) {
    return out << of.buffers << " buffers of " << of.bytes << " bytes, closed " << of.closed_buffers << " of "
               << of.closed_bytes;
  }
};
Figures figures(const MemoryResource& resource) {
  const ResourceStats stats = resource.stats();
  return {stats.leased_buffers, stats.leased, stats.leased_closed_buffers, stats.leased_closed};
}
Figures figures(const ipc::LeasedTo& one) { return {one.buffers, one.bytes, one.closed_buffers, one.closed_bytes}; }
std::string message(MemoryResource& of, std::size_t bytes, const Stream& on) {
  try {
    (void)of.allocate(bytes, on);
  } catch (const OutOfMemory& error) {
    return error.what();
  }
  return "it had memory";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A thread in a call that waits. The constructor returns when the thread sleeps.
class Sleeper {
 public:
  template <class Call>
  explicit Sleeper(Call call)
      : thread_([this, call] {
          const AtEnd ended{id_};  // whether it returns or throws
          id_ = gettid();
          call();
        }) {
    while (!sleeps_or_is_over()) std::this_thread::yield();  // the watchdog ends it if that never is
    EXPECT_NE(id_, over) << "it had nothing to wait for";
  }

 private:
  static constexpr pid_t over = -1;
  struct AtEnd {
    ~AtEnd() { id = over; }
    std::atomic<pid_t>& id;
  };
  [[nodiscard]] bool sleeps_or_is_over() const {
    const pid_t id = id_;
    return id <= 0 ? id == over : sleeps(id);
  }

  std::atomic<pid_t> id_{0};
  Thread thread_;
};

class Leased : public OnMemory {
 protected:
  [[nodiscard]] Child spawn(std::size_t count) {
    return {WEIR_CHILD_DIR "/channel_child", {"hold", device().id(), std::to_string(count)}};
  }
  /// Return a channel whose other end goes to the child.
  static Channel connect(const Child& child) {
    auto [mine, theirs] = Channel::make_sockets();
    std::vector<spi::UniqueFd> files;
    files.push_back(std::move(theirs));
    ipc::send(child.socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
    return Channel(std::move(mine));
  }
  static std::pair<Channel, Channel> make_channels() {
    auto [one, other] = Channel::make_sockets();
    return {Channel(std::move(one)), Channel(std::move(other))};
  }
  [[nodiscard]] PoolPtr pool_of(std::size_t bytes, std::chrono::nanoseconds patience) const {
    return make_pool(resource, {.limit = bytes, .segment_bytes = bytes, .patience = patience, .exportable = true});
  }

  const std::size_t whole = std::max(std::size_t{1} << 20, device().find(resource->kind())->granularity);
};
WEIR_FOR_EACH_EXPORTABLE(Leased);

TEST_P(Leased, IsCountedOnceAndForEachProcess) {
  const auto pool = pool_of(whole, 1ms);
  EXPECT_EQ(figures(*pool), (Figures{}));
  Child child = spawn(2);
  Channel there = connect(child);
  auto [here, self] = make_channels();
  Buffer first = pool->allocate(size, stream), second = pool->allocate(2 * size, stream);
  there.send(first, stream);
  there.send(first.slice(10, 20), stream);  // the buffer as a whole stays
  here.send(second, stream);
  here.send(first, stream);
  EXPECT_EQ(child.line(), "holds");
  std::vector<ipc::Parcel> held;
  for (int i = 0; i < 2; ++i) held.push_back(self.receive(stream, limit));
  EXPECT_EQ(figures(*pool), (Figures{2, 3 * size, 0, 0})) << "they are open here";
  first.close();
  EXPECT_EQ(figures(*pool), (Figures{2, 3 * size, 1, size}));
  const auto all = ipc::leased_to(*pool);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].process, getpid());
  EXPECT_EQ(figures(all[0]), (Figures{2, 3 * size, 1, size}));
  EXPECT_EQ(all[1].process, child.id());
  EXPECT_EQ(figures(all[1]), (Figures{1, size, 1, size}));
  EXPECT_EQ(there.stats().process, child.id());
  held.clear();
  child.kill();
  stream.synchronize();
  EXPECT_TRUE(ipc::wait_for_returns(*pool, 0, limit));
  EXPECT_EQ(figures(*pool), (Figures{}));
  EXPECT_TRUE(ipc::leased_to(*pool).empty());
}

TEST_P(Leased, IsOfTheResourcesThatItCameThrough) {
  const auto pool = pool_of(whole, 1ms), other = pool_of(whole, 1ms);
  const auto limited = make_limiting(pool, whole);
  auto [here, there] = make_channels();
  Buffer mine = limited->allocate(size, stream), theirs = pool->allocate(2 * size, stream);
  here.send(mine, stream);
  here.send(theirs, stream);
  EXPECT_EQ(figures(*limited), (Figures{1, size, 0, 0}));
  EXPECT_EQ(figures(*pool), (Figures{2, 3 * size, 0, 0}));
  EXPECT_EQ(figures(*resource), (Figures{2, 3 * size, 0, 0}));
  EXPECT_EQ(figures(*other), (Figures{}));
}

// Nobody knows who has a descriptor.
TEST_P(Leased, ByDescriptorIsCountedToo) {
  const auto pool = pool_of(whole, 1ms);
  Buffer buffer = pool->allocate(size, stream);
  std::optional<ipc::Descriptor> descriptor = buffer.ipc_descriptor(stream);
  EXPECT_EQ(figures(*pool), (Figures{1, size, 0, 0}));
  buffer.close();
  EXPECT_EQ(figures(*pool), (Figures{1, size, 1, size}));
  const auto all = ipc::leased_to(*pool);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].process, 0);
  descriptor.reset();
  EXPECT_TRUE(ipc::wait_for_returns(*pool, 0, limit));
  EXPECT_EQ(figures(*pool), (Figures{}));
}

TEST_P(Leased, IsInTheDump) {
  const auto pool = pool_of(whole, 1ms);
  auto [here, there] = make_channels();
  Buffer closed = pool->allocate(size, stream), open = pool->allocate(size, stream);
  here.send(closed, stream);
  here.send(open, stream);
  EXPECT_FALSE(has(pool->dump(), "\"state\":\"leased\""));
  closed.close();
  const std::string dump = pool->dump();
  EXPECT_TRUE(has(dump, "\"state\":\"leased\"")) << dump;
  EXPECT_TRUE(has(dump, "\"state\":\"live\"")) << dump;
  EXPECT_TRUE(has(dump, "\"leased\":2000,\"leased_buffers\":2,\"leased_closed\":1000,\"leased_closed_buffers\":1"))
      << dump;
  EXPECT_TRUE(has(dump, "{\"process\":" + std::to_string(::getpid()) +
                            ",\"buffers\":2,\"bytes\":2000,\"closed_buffers\":1,\"closed_bytes\":1000}]"))
      << dump;
}

TEST_P(Leased, IsSaidWhenMemoryRunsOut) {
  const auto pool = pool_of(whole, 1ms);
  Child child = spawn(2);
  Channel channel = connect(child);
  for (int i = 0; i < 2; ++i) channel.send(pool->allocate(whole / 2, stream), stream);
  EXPECT_EQ(child.line(), "holds");
  const std::string who = " in all are closed here and still used by process " + std::to_string(child.id());
  const std::string said = message(*pool, whole, stream);
  EXPECT_TRUE(has(said, "2 buffers of ")) << said;
  EXPECT_TRUE(has(said, who)) << said;
  EXPECT_TRUE(has(said, "wait_for_returns")) << said;
  child.kill();
  EXPECT_TRUE(ipc::wait_for_returns(*pool, 0, limit));
  const std::string later = message(*pool, 2 * whole, stream);
  EXPECT_FALSE(has(later, "still used by")) << later;
}

TEST_P(Leased, IsSaidWithEveryoneWhoHasIt) {
  const auto pool = pool_of(whole, 1ms);
  auto [here, there] = make_channels();
  Buffer buffer = pool->allocate(whole, stream);
  const ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
  here.send(buffer, stream);
  EXPECT_FALSE(has(message(*pool, whole, stream), "still used by")) << "it is open here";
  buffer.close();
  const std::string said = message(*pool, whole, stream);
  EXPECT_TRUE(has(said, "; 1 buffer of ")) << said;
  EXPECT_TRUE(has(said, " is closed here and still used by process " + std::to_string(getpid()) +
                            ", and a process that is not known. "))
      << said;
}

TEST_P(Leased, IsSaidByALimitToo) {
  const auto limited = make_limiting(pool_of(whole, 1ms), whole / 2);
  auto [here, there] = make_channels();
  here.send(limited->allocate(whole / 2, stream), stream);
  try {
    (void)limited->allocate(whole / 2, stream);
    ADD_FAILURE() << "it had memory";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().leased_buffers, 1U);
    EXPECT_EQ(error.shortage().leased, whole / 2);
  }
}

// The peer is another process, which gives the memory back while the request waits.
TEST_P(Leased, IsWaitedForByARequest) {
  const auto pool = pool_of(whole, for_ever);
  Child child = spawn(1);
  Channel channel = connect(child);
  channel.send(pool->allocate(whole, stream), stream);
  EXPECT_EQ(child.line(), "holds");
  const Sleeper request([&] { EXPECT_EQ(pool->allocate(whole, stream).size(), whole); });
  child.kill();
}

TEST_P(Leased, ByDescriptorIsWaitedForByARequest) {
  const auto pool = pool_of(whole, for_ever);
  Buffer buffer = pool->allocate(whole, stream);
  std::optional<ipc::Descriptor> descriptor = buffer.ipc_descriptor(stream);
  buffer.close();
  const Sleeper request([&] { EXPECT_EQ(pool->allocate(whole, stream).size(), whole); });
  descriptor.reset();
}

// What comes back from a peer wakes the request, and so must what is closed here.
TEST_P(Leased, MayComeFromACloseHereWhileOthersHaveTheRest) {
  const auto pool = pool_of(2 * whole, for_ever);
  auto [here, there] = make_channels();
  Buffer half = pool->allocate(whole, stream);
  here.send(pool->allocate(whole, stream), stream);
  const Sleeper request([&] { EXPECT_EQ(pool->allocate(whole, stream).size(), whole); });
  half.close();
}

TEST_P(Leased, IsNotWaitedForWhileItIsOpenHere) {
  const auto pool = pool_of(whole, for_ever);
  auto [here, there] = make_channels();
  const Buffer open = pool->allocate(whole, stream);
  here.send(open, stream);
  EXPECT_FALSE(pool->try_allocate(whole, stream));
}

TEST_P(Leased, IsWaitedForAsLongAsTheCallerSays) {
  const auto pool = pool_of(whole, 1ms);
  EXPECT_TRUE(ipc::wait_for_returns(*pool, 0, 0ms)) << "nothing is leased";
  auto [here, there] = make_channels();
  here.send(pool->allocate(size, stream), stream);
  here.send(pool->allocate(size, stream), stream);
  EXPECT_FALSE(ipc::wait_for_returns(*pool, 0, 0ms));
  EXPECT_FALSE(ipc::wait_for_returns(*pool, 2 * size - 1, 5ms));
  EXPECT_TRUE(ipc::wait_for_returns(*pool, 2 * size, 0ms));
  const Sleeper waits([&] { EXPECT_TRUE(ipc::wait_for_returns(*pool)); });
  there.close();
}

// A socket that asks gets a name, in a space that all processes of the network namespace see, when it sends.
TEST_P(Leased, IsLentOverSocketsThatAskOnce) {
  auto [mine, theirs] = Channel::make_sockets();
  const int files[] = {mine.get(), theirs.get()};
  Channel here(std::move(mine)), there(std::move(theirs));
  for (Channel* const from : {&here, &there}) {
    Channel& to = from == &here ? there : here;
    from->send(resource->allocate(size, stream), stream);
    to.receive(stream, limit).buffer.close();
    EXPECT_EQ(to.stats().process, getpid());
  }
  for (const int file : files) {
    int asks = -1;
    socklen_t bytes = sizeof asks;
    EXPECT_EQ(::getsockopt(file, SOL_SOCKET, SO_PASSCRED, &asks, &bytes), 0);
    EXPECT_EQ(asks, 0);
    sockaddr_un name{};
    bytes = sizeof name;
    EXPECT_EQ(::getsockname(file, reinterpret_cast<sockaddr*>(&name), &bytes), 0);
    EXPECT_EQ(bytes, sizeof name.sun_family) << "it has a name";
  }
}

// Return how many bytes another process opens of a buffer that lies in one page.
std::size_t opened_for(const Buffer& buffer) {
  const auto place = buffer.location();
  spi::PagedSegment* const paged = place.segment->paged();
  return paged ? paged->hold(place.offset, buffer.size()).pages.front()->size : place.segment->size;
}

// Two openings of one memory are two buffers and one segment.
TEST_P(Leased, SegmentsCountOnceInTheImporter) {
  await_releases();  // of other tests
  Buffer buffer = resource->allocate(size, stream);
  const std::size_t segment = opened_for(buffer);
  std::vector<Buffer> opened;
  opened.push_back(ipc::open(buffer.ipc_descriptor(stream), stream));
  const ResourcePtr external = opened[0].memory_resource();
  const ResourceStats one = external->stats();
  opened.push_back(ipc::open(buffer.ipc_descriptor(stream), stream));
  const ResourceStats two = external->stats();
  EXPECT_EQ(two.in_use - one.in_use, size);
  EXPECT_EQ(two.live_buffers - one.live_buffers, 1U);
  EXPECT_EQ(two.reserved, one.reserved);
  opened.clear();
  stream.synchronize();
  await_releases();
  const ResourceStats none = external->stats();
  EXPECT_EQ(one.reserved - none.reserved, segment);
  EXPECT_EQ(one.in_use - none.in_use, size);
}

TEST_P(Leased, SegmentsOfAChannelCountOnceInTheImporter) {
  (void)ipc::wait_for_returns(*resource, 0, 0ms);  // attends to channels of other tests
  await_releases();
  auto [here, there] = make_channels();
  auto [further, too] = make_channels();
  const Buffer buffer = resource->allocate(size, stream);
  const std::size_t segment = opened_for(buffer);
  for (Channel* const channel : {&here, &here, &further}) channel->send(buffer.slice(0, 100), stream);
  Buffer first = there.receive(stream, limit).buffer;
  const ResourcePtr borrowed = first.memory_resource();
  const ResourceStats one = borrowed->stats();
  Buffer second = there.receive(stream, limit).buffer, third = too.receive(stream, limit).buffer;
  const ResourceStats three = borrowed->stats();
  EXPECT_EQ(three.in_use - one.in_use, 200U);
  EXPECT_EQ(three.reserved, one.reserved);
  EXPECT_GE(three.reserved, segment);
}

}  // namespace
}  // namespace weir::test
