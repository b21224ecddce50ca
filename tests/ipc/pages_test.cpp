// SPDX-License-Identifier: Apache-2.0
// Buffers of paged pools, which lie in one page or in several, sent to this process and in held sets.

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fds.hpp"
#include "holding.hpp"
#include "lent_pages.hpp"
#include "modelled_driver.hpp"
#include "settle.hpp"
#include "threads.hpp"
#include "weir/channel.hpp"
#include "weir/held_set.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/spi/backend.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Channel;

WEIR_FOR_EACH(LentPages, paged_exportable(), MemoryName);

struct Connected {
  explicit Connected(std::pair<spi::UniqueFd, spi::UniqueFd> ends = Channel::make_sockets())
      : here(std::move(ends.first)), there(std::move(ends.second)) {}
  Channel here, there;
};

// Each page is a file of every process that opens it.
TEST_P(LentPages, AreFew) {
  const std::size_t segment = PoolOptions{}.segment_bytes;
  const auto usual = make_pool(resource, {.exportable = true});
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < 4 * segment / page; ++i) buffers.push_back(usual->allocate(page, stream));
  EXPECT_EQ(usual->pool_stats().segments, 4U);
  EXPECT_EQ(usual->stats().reserved, 4 * segment);
  for (std::size_t i = 0; i < 100; ++i) buffers.push_back(usual->allocate(500, stream));
  EXPECT_EQ(usual->pool_stats().segments, 5U);
  const Buffer large = usual->allocate(10 * segment, stream);
  EXPECT_LE(count_pages(large), 5U);
  // The only page goes where it is needed, and back.
  const auto small = make_pool(resource, {.limit = segment, .exportable = true});
  small->allocate(500, stream).close();
  small->allocate(segment, stream).close();
  EXPECT_EQ(small->pool_stats().moved, 1U);
  stream.synchronize();
  EXPECT_EQ(small->trim(0), segment);
  // Where there is no room for as much, less has to do.
  const auto limited = make_pool(resource, {.limit = 2 * page, .exportable = true});
  const Buffer one = limited->allocate(page, stream), other = limited->allocate(page - 1000, stream);
  EXPECT_EQ(limited->stats().reserved, 2 * page);
}

// So many gigabytes are a few hundred of them.
TEST_P(LentPages, GrowWithThePool) {
  constexpr std::size_t count = 100;
  const auto pages_with = [&](double growth) {
    const auto growing = make_pool(resource, {.segment_bytes = page, .growth = growth, .exportable = true});
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) buffers.push_back(growing->allocate(page, stream));
    EXPECT_LE(growing->stats().reserved, static_cast<std::size_t>((1 + growth) * static_cast<double>(count * page)));
    return growing->pool_stats().segments;
  };
  EXPECT_EQ(pages_with(0), count);
  EXPECT_LE(pages_with(0.25), 30U);
}

TEST_P(LentPages, DescriptorsNameAllOfThem) {
  const Buffer buffer = in_pages(5, 1000);
  put(buffer, pattern(buffer.size(), 1));
  for (const auto& [at, bytes] : {std::pair{std::size_t{0}, buffer.size()},
                                  {0, 2 * page},
                                  {0, 3 * page},
                                  {page - 10, 2 * page},
                                  {3 * page, page}}) {
    const Buffer part = buffer.slice(at, bytes);
    const auto descriptor = part.ipc_descriptor(stream);
    EXPECT_EQ(descriptor.bytes().size(), 256 + (count_pages(part) > 1 ? 8 * count_pages(part) : 0));
    EXPECT_GE(descriptor.fds().size(), count_pages(part) + 1) << "the pages, and a lease";
    Buffer opened = ipc::open(part.ipc_descriptor(stream), stream);
    EXPECT_EQ(opened.size(), bytes);
    EXPECT_BYTES(read(opened, stream), test::part(pattern(buffer.size(), 1), at, bytes));
    EXPECT_BYTES(read(opened.slice(bytes - 20, 20), stream),
                 test::part(pattern(buffer.size(), 1), at + bytes - 20, 20));
  }
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  opened.fill(std::uint8_t{7}, page - 50, 100, stream);
  EXPECT_BYTES(read(buffer.slice(page - 50, 100), stream), repeat(100, 7));
}

TEST_P(LentPages, DescriptorsGoOverSocketsOfBothKinds) {
  const Buffer buffer = in_pages(3), small = pool->allocate(100, stream);
  put(buffer, pattern(buffer.size(), 2));
  put(small, pattern(100, 3));
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    const spi::UniqueFd here(ends[0]), there(ends[1]);
    ipc::send(here.get(), buffer.ipc_descriptor(stream));
    ipc::send(here.get(), small.ipc_descriptor(stream));
    ipc::send(here.get(), buffer.ipc_descriptor(stream));
    for (int i = 0; i < 3; ++i) {
      const Buffer opened = ipc::open(ipc::receive(there.get(), limit), stream);
      EXPECT_BYTES(read(opened, stream), i == 1 ? pattern(100, 3) : pattern(buffer.size(), 2)) << i;
    }
  }
}

TEST_P(LentPages, AChannelTellsOfThemOnce) {
  const Buffer buffer = in_pages(4);
  put(buffer, pattern(buffer.size(), 4));
  Connected channels;
  const Stream other(device());
  for (int i = 0; i < 3; ++i) {
    channels.here.send(buffer, stream, {}, limit);
    channels.here.send(buffer.slice(2 * page + 5, page - 9), stream, {}, limit);  // in one page
    EXPECT_EQ(channels.here.stats().known, 2U) << "the four pages together, and one of them alone";
    EXPECT_BYTES(read(receive(channels.there, other), other), pattern(buffer.size(), 4));
    EXPECT_BYTES(read(receive(channels.there, other), other),
                 part(pattern(buffer.size(), 4), 2 * page + 5, page - 9));
  }
  other.synchronize();
  EXPECT_TRUE(all_comes_back(channels.here));
}

TEST_P(LentPages, StayWhereTheyAreUntilTheyComeBack) {
  Connected channels;
  const Stream other(device());
  Buffer lent = in_pages(4);
  const auto address = lent.device_address();
  put(lent, pattern(lent.size(), 5));
  channels.here.send(lent, stream, {}, limit);
  lent.close();
  Buffer there = receive(channels.there, other);
  pool->trim(0);
  EXPECT_GE(pool->stats().reserved, 4 * page);
  Buffer beside = pool->allocate(8 * page, stream);  // would take idle pages
  beside.fill(std::uint8_t{1}, stream);
  EXPECT_BYTES(read(there, other), pattern(4 * page, 5));
  there.close();
  other.synchronize();
  EXPECT_TRUE(all_comes_back(channels.here));
  beside.close();
  stream.synchronize();
  Buffer again = pool->allocate(4 * page, stream);
  EXPECT_NE(address, 0U);
  again.close();
  stream.synchronize();
  pool->trim(0);
  EXPECT_EQ(pool->stats().reserved, 0U);
}

// What a peer was told of pages ends when one of them moves or ends.
TEST_P(LentPages, AreToldAnewWhereTheyMoved) {
  Connected channels;
  const Stream other(device());
  for (int round = 0; round < 5; ++round) {
    {
      const Buffer buffer = in_pages(3 + static_cast<std::size_t>(round) % 2);
      put(buffer, pattern(buffer.size(), static_cast<unsigned>(round)));
      channels.here.send(buffer, stream, {}, limit);
      EXPECT_BYTES(read(receive(channels.there, other), other), pattern(buffer.size(), static_cast<unsigned>(round)));
    }
    other.synchronize();
    EXPECT_TRUE(all_comes_back(channels.here));
    stream.synchronize();
    pool->trim(0);
    EXPECT_EQ(pool->stats().reserved, 0U);
    EXPECT_EQ(channels.here.stats().known, 0U) << "of memory that is gone";
  }
}

TEST_P(LentPages, ArePartOfWhatIsToldUntilTheyMove) {
  Connected channels;
  const Stream other(device());
  Buffer buffer = in_pages(2);
  const Buffer fence = pool->allocate(page, stream);  // right behind
  channels.here.send(buffer, stream, {}, limit);
  (void)receive(channels.there, other);
  buffer.close();
  other.synchronize();
  EXPECT_TRUE(all_comes_back(channels.here));
  while (pool->stats().live_buffers != 1) std::this_thread::yield();  // what came back is on its way to the pool
  stream.synchronize();
  EXPECT_EQ(channels.here.stats().known, 1U);
  const auto moved = pool->pool_stats().moved;
  const Buffer larger = pool->allocate(4 * page, stream);
  EXPECT_EQ(pool->pool_stats().moved, moved + 2);
  EXPECT_EQ(channels.here.stats().known, 0U);
  put(larger, pattern(larger.size(), 9));
  channels.here.send(larger, stream, {}, limit);
  EXPECT_BYTES(read(receive(channels.there, other), other), pattern(larger.size(), 9));
}

// What a peer has open is not told again because others were told of much else meanwhile.
TEST_P(LentPages, AreKnownAsLongAsAPeerUsesThem) {
  if (!find_in_model("fake_cuda_live"))
    GTEST_SKIP() << "39 000 pages are exported, for which a real driver takes minutes";
  constexpr std::size_t count = 300, longest = 16;  // 4 380 sequences: more than are remembered of a segment
  const Buffer buffer = in_pages(count);
  put(buffer.slice(0, 2 * page), pattern(2 * page, 1));
  Connected channels, others;
  const Stream other(device());
  channels.here.send(buffer.slice(0, 2 * page), stream, {}, limit);
  const Buffer held = receive(channels.there, other);
  others.here.send(buffer.slice(page, 2 * page), stream, {}, limit);
  receive(others.there, other).close();
  other.synchronize();
  EXPECT_TRUE(all_comes_back(others.here));
  EXPECT_EQ(others.here.stats().known, 1U);
  for (std::size_t first = 0; first < count; ++first) {
    for (std::size_t pages = 2; pages <= longest && first + pages <= count; ++pages)
      (void)buffer.slice(first * page, pages * page).ipc_descriptor(stream);
  }
  EXPECT_EQ(others.here.stats().known, 0U) << "nothing was forgotten, so this shows nothing";
  EXPECT_EQ(channels.here.stats().known, 1U);
  EXPECT_BYTES(read(held, other), pattern(2 * page, 1));
}

// A receiver keeps their files open until it takes the buffers: the sender waits before they are too many.
TEST_P(LentPages, ManyGoOverAChannelOneAfterAnother) {
  constexpr std::size_t each = 60, count = 8;
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    buffers.push_back(in_pages(each));
    put(buffers.back().slice(each * page - 100, 100), pattern(100, static_cast<unsigned>(i)));
  }
  Connected channels;
  const Stream other(device());
  const auto send = [&](std::size_t from, std::chrono::milliseconds time) {
    std::vector<ipc::Parcel> parcels;
    for (std::size_t i = from; i < count; ++i) parcels.push_back({buffers[i].share()});
    return channels.here.send(parcels, stream, time);
  };
  constexpr std::size_t at_first = 256 / each;
  std::size_t sent = 0;
  while (sent < at_first) sent += send(sent, 100ms);
  EXPECT_EQ(sent, at_first);
  EXPECT_ERROR(send(sent, 1ms), Errc::timed_out, "");
  const Thread sender([&] { EXPECT_EQ(send(sent, limit), count - sent); });
  for (std::size_t i = 0; i < count; ++i) {
    const Buffer got = receive(channels.there, other);
    EXPECT_BYTES(read(got.slice(each * page - 100, 100), other), pattern(100, static_cast<unsigned>(i)));
  }
}

// The receiver closes none of them, so that only taking them makes room.
TEST_P(LentPages, ThatAreKeptMakeRoomForMore) {
  constexpr std::size_t each = 50, count = 8;
  const Buffer all = in_pages(each * count);
  Connected channels;
  const Thread sender([&] {
    for (std::size_t i = 0; i < count; ++i)
      channels.here.send(all.slice(i * each * page, each * page), stream, {}, limit);
  });
  std::vector<Buffer> kept;
  for (std::size_t i = 0; i < count; ++i) kept.push_back(receive(channels.there, stream));
  EXPECT_EQ(channels.there.stats().borrowed, count);
}

TEST_P(LentPages, TooManyOfThemAreRefused) {
  const Buffer buffer = in_pages(251);
  Connected channels;
  EXPECT_ERROR(buffer.ipc_descriptor(stream), Errc::unsupported, "lies in 251 pages");
  EXPECT_ERROR(channels.here.send(buffer, stream, {}, limit), Errc::unsupported, "lies in 251 pages");
  const Buffer fewer = buffer.slice(0, 250 * page);
  put(fewer.slice(249 * page, 100), pattern(100, 6));
  EXPECT_BYTES(read(ipc::open(fewer.ipc_descriptor(stream), stream).slice(249 * page, 100), stream), pattern(100, 6));
  channels.here.send(fewer, stream, {}, limit);
  EXPECT_BYTES(read(receive(channels.there, stream).slice(249 * page, 100), stream), pattern(100, 6));
}

TEST_P(LentPages, AreOpenedForReading) {
  if (!device().state().backend->segments->export_to_readers) GTEST_SKIP() << "memory is not lent for reading here";
  const Buffer buffer = in_pages(3);
  put(buffer, pattern(buffer.size(), 7));
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream, ipc::Access::read_only), stream);
  EXPECT_TRUE(opened.is_read_only());
  EXPECT_ERROR(opened.fill(std::uint8_t{1}, stream), Errc::permission_denied, "");
  EXPECT_BYTES(read(opened, stream), pattern(buffer.size(), 7));
}

// The process that lends may open its own memory. Copies within it are refused where they overlap.
TEST_P(LentPages, AreTheMemoryOfTheirBuffers) {
  Buffer buffer = in_pages(3);
  put(buffer, pattern(buffer.size(), 2));
  Buffer whole = ipc::open(buffer.ipc_descriptor(stream), stream);
  Buffer last = ipc::open(buffer.slice(2 * page, page).ipc_descriptor(stream), stream);
  EXPECT_ERROR(buffer.copy_to(whole, 100, 0, 101, stream), Errc::invalid_argument, "overlap by 1 bytes");
  EXPECT_ERROR(whole.copy_to(buffer, page, page + 10, 11, stream), Errc::invalid_argument, "overlap by 1 bytes");
  EXPECT_ERROR(buffer.copy_to(last, 0, 2 * page - 10, 11, stream), Errc::invalid_argument, "overlap by 1 bytes");
  whole.copy_to(buffer, page, page + 10, 10, stream);
  buffer.copy_to(last, 0, 2 * page - 10, 10, stream);
  Buffer rest = ipc::open(buffer.slice(page, 2 * page).ipc_descriptor(stream), stream);
  EXPECT_ERROR(whole.copy_to(last, 0, 2 * page - 10, 11, stream), Errc::invalid_argument, "overlap by 1 bytes");
  EXPECT_ERROR(last.copy_to(rest, page - 10, 0, 11, stream), Errc::invalid_argument, "overlap by 1 bytes");
  EXPECT_ERROR(rest.copy_to(whole, page + 100, 0, 101, stream), Errc::invalid_argument, "overlap by 1 bytes");
  whole.copy_to(last, 0, 2 * page - 10, 10, stream);
  last.copy_to(rest, page - 10, 0, 10, stream);
  const Buffer others = in_pages(2);
  const Buffer elsewhere = ipc::open(others.ipc_descriptor(stream), stream);
  elsewhere.copy_to(rest, stream);
}

TEST_P(LentPages, TensorsOfASetShareThem) {
  const Buffer buffer = in_pages(6);
  put(buffer, pattern(buffer.size(), 8));
  HolderThread holder;
  ipc::SetWriter from(holder.path(), "weights");
  // Each begins where the one before ends, so that all but the first and the last page have parts of two.
  const std::vector<std::size_t> ends{page - 300, 3 * page + 44, 4 * page + 1000, 6 * page};
  std::size_t at = 0;
  for (const std::size_t end : ends) {
    const Buffer part = buffer.slice(at, end - at);
    from.add("to " + std::to_string(end), part.view(u8, {static_cast<std::int64_t>(part.size())}), stream);
    at = end;
  }
  const Buffer small = buffer.slice(page - 300, 400);  // begins in the same page as a larger one
  from.add("small", small.view(u8, {400}), stream);
  EXPECT_EQ(from.commit(limit), 1U);
  EXPECT_EQ(holder.stats().files, 7U) << "the pages, each once, and a lease";
  ipc::SetReader to(holder.path(), "weights");
  const ipc::HeldSet set = to.open(stream, limit);
  EXPECT_BYTES(read(set.tensors.at("small").buffer(), stream), part(pattern(buffer.size(), 8), page - 300, 400));
  at = 0;
  for (const std::size_t end : ends) {
    const Buffer& part = set.tensors.at("to " + std::to_string(end)).buffer();
    EXPECT_BYTES(read(part, stream), test::part(pattern(buffer.size(), 8), at, end - at)) << end;
    EXPECT_TRUE(part.is_read_only());
    at = end;
  }
}

TEST_P(LentPages, CountOnceForAllReadersOfASet) {
  const Buffer buffer = in_pages(4);
  HolderThread holder;
  ipc::SetWriter from(holder.path(), "weights");
  from.add("run", buffer.slice(0, 3 * page).view(u8, {static_cast<std::int64_t>(3 * page)}), stream);
  from.add("alone", buffer.slice(3 * page, page).view(u8, {static_cast<std::int64_t>(page)}), stream);
  from.commit(limit);
  ipc::SetReader one(holder.path(), "weights"), other(holder.path(), "weights");
  const ipc::HeldSet first = one.open(stream, limit);
  const auto reserved = [&] { return first.tensors.at("run").buffer().memory_resource()->stats().reserved; };
  EXPECT_EQ(reserved(), 4 * page);
  const ipc::HeldSet second = other.open(stream, limit);
  EXPECT_EQ(reserved(), 4 * page);
}

TEST_P(LentPages, LeaveNoFilesBehind) {
  const auto round = [&] {
    const Buffer buffer = in_pages(5);
    Connected channels;
    const Stream other(device());
    Buffer opened = ipc::open(buffer.ipc_descriptor(stream), other);
    channels.here.send(buffer, stream, {}, limit);
    channels.here.send(buffer.slice(page, 3 * page), stream, {}, limit);  // and never taken
    (void)receive(channels.there, other);
    other.synchronize();
  };
  round();
  const auto clean = [&] {
    stream.synchronize();
    await_releases();
    pool->trim(0);
    return pool->stats().reserved == 0;
  };
  EXPECT_TRUE(clean());
  const auto before = open_fds();
  for (int i = 0; i < 3; ++i) round();
  EXPECT_TRUE(clean());
  EXPECT_FDS(before);
}

}  // namespace
}  // namespace weir::test
