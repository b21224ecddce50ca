// SPDX-License-Identifier: Apache-2.0
// Memory runs out while an honest end reads what its peer said. The call that was asking fails; the connection goes on,
// and neither end uses memory again that the other one still has.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "expect.hpp"
#include "folder.hpp"
#include "hold.hpp"
#include "inject/allocations.hpp"
#include "ipc/channel/watcher.hpp"
#include "ipc/channel/words.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/channel.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t bytes = 4096, most = 100;
constexpr auto limit = 30s;

class ChannelShortOfMemory : public testing::Test {
 protected:
  struct Pair {
    explicit Pair(std::pair<spi::UniqueFd, spi::UniqueFd> sockets = ipc::Channel::make_sockets())
        : lender(std::move(sockets.first)), borrower(std::move(sockets.second)) {}
    ipc::Channel lender, borrower;
  };

  Buffer filled(const ResourcePtr& resource, std::uint32_t seed) const {
    Buffer made = resource->allocate(bytes, stream_);
    made.copy_from(pattern(bytes, seed), stream_);
    stream_.synchronize();
    return made;
  }
  /// Lend a buffer of the pool, which only the borrower has from then on.
  Buffer lend(Pair& pair, std::uint32_t seed) {
    pair.lender.send(filled(pool_, seed), stream_, {}, limit);
    return pair.borrower.receive(stream_, limit).buffer;
  }
  /// Send a row of buffers in one packet: of the pool, of a segment that the peer does not know, with payloads.
  void send_some(ipc::Channel& from) {
    std::vector<ipc::Parcel> some(3);
    some[0].buffer = filled(pool_, 2);
    some[1].buffer = filled(plain_, 3);
    some[2].buffer = filled(pool_, 4);
    for (ipc::Parcel& one : some) one.payload = pattern(100, 5);
    ASSERT_EQ(from.send(some, stream_, limit), some.size());
  }
  /// Expect that both ends go on as if nothing had happened.
  void expect_sound(Pair& pair, Buffer& held) {
    std::vector<Buffer> others;
    for (std::uint32_t i = 0; i < 4; ++i) others.push_back(filled(pool_, 100 + i));
    Bytes seen(bytes);
    held.copy_to(std::span(seen), stream_);
    stream_.synchronize();
    EXPECT_BYTES(seen, pattern(bytes, 1));
    held.close();
    (void)lend(pair, 6);
    EXPECT_TRUE(eventually([&] { return pair.lender.stats().lent == 0; })) << pair.lender.stats().lent;
    EXPECT_TRUE(eventually([&] { return pair.borrower.stats().lent == 0; })) << pair.borrower.stats().lent;
  }
  /// Receive all that has come; how often `receive` fails for want of memory says how many are missing.
  std::size_t receive_rest(ipc::Channel& channel) {
    std::size_t received = 0;
    try {
      for (;; ++received) (void)channel.receive(stream_, 0ms);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Errc::timed_out) << error.what();
    }
    return received;
  }

  const Stream stream_{host_device()};
  const ResourcePtr plain_ = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  const ResourcePtr pool_ = make_pool(plain_, {.exportable = true});
};

TEST_F(ChannelShortOfMemory, ABorrowerKeepsWhatItHas) {
  FailingAllocations injector(host_device());
  std::size_t nth = 1, refused = 0;
  for (bool more = true; more && nth < most; ++nth) {
    Pair pair;
    Buffer held = lend(pair, 1);
    send_some(pair.lender);
    std::size_t received = 0;
    injector.arm(nth, 0);
    try {
      (void)pair.borrower.receive(stream_, limit);
      ++received;
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    more = injector.disarm().has_value();
    SCOPED_TRACE("allocation " + std::to_string(nth));
    EXPECT_TRUE(eventually([&] {  // what could not be read is read later, maybe by the library's thread
      received += receive_rest(pair.borrower);
      return pair.lender.stats().lent == 1;
    })) << pair.borrower.stats().waiting;
    EXPECT_GE(received, 2U) << "a call that fails may give the buffer back that it had found, and no other";
    expect_sound(pair, held);
  }
  EXPECT_GE(refused, 6U) << "three messages, and what is kept for them";
  EXPECT_LT(nth, most) << "it never ends";
}

// Both buffers are of a segment that the borrower does not know yet.
TEST_F(ChannelShortOfMemory, ABorrowerOpensLaterWhatItCouldNotOpen) {
  FailingAllocations injector(host_device());
  std::size_t nth = 1, refused = 0;
  for (bool more = true; more && nth < most; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    Pair pair;
    const Buffer first = filled(pool_, 1), second = filled(pool_, 2);
    pair.lender.send(first, stream_, {}, limit);
    pair.lender.send(second, stream_, {}, limit);
    injector.arm(nth, 0);
    Buffer got;
    try {
      got = pair.borrower.receive(stream_, limit).buffer;
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    more = injector.disarm().has_value();
    if (got.is_closed()) got = pair.borrower.receive(stream_, limit).buffer;
    EXPECT_EQ(got.size(), bytes);
  }
  EXPECT_GE(refused, 6U);
  EXPECT_LT(nth, most) << "it never ends";
}

// Nor does the stream wait for work on a buffer that the caller did not get: it would be lost with the peer.
TEST_F(ChannelShortOfMemory, WhatIsNotReceivedIsNotWaitedFor) {
  FailingAllocations injector(host_device());
  for (const bool over_channel : {true, false}) {
    std::size_t nth = 1, refused = 0;
    for (bool more = true; more && nth < most; ++nth) {
      SCOPED_TRACE("allocation " + std::to_string(nth));
      Pair pair;
      const Stream writer(host_device()), reader(host_device());
      const Buffer sent = filled(plain_, 1);
      Hold hold;
      writer.wait(hold.event());
      std::optional<ipc::Descriptor> descriptor;
      if (over_channel) {
        pair.lender.send(sent, writer, {}, limit);
      } else {
        descriptor = sent.ipc_descriptor(writer);
      }
      Buffer got;
      bool failed = false;
      injector.arm(nth, 0);
      try {
        got = over_channel ? pair.borrower.receive(reader, limit).buffer : ipc::open(*std::move(descriptor), reader);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      more = injector.disarm().has_value();
      refused += failed ? 1 : 0;
      EXPECT_EQ(reader.done(), failed);
      (void)take_reports();
    }
    EXPECT_GE(refused, 6U);
    EXPECT_LT(nth, most) << "it never ends";
  }
}

TEST(HeldSetsShortOfMemory, AreCommittedOrNot) {
  const Folder folder;
  ipc::Holder holder(folder / "holder");
  const Thread serves([&] { holder.run(); });
  const OnLeaving stops([&] { holder.stop(); });
  const Stream stream(host_device());
  const Buffer buffer = host::make_shared_resource()->allocate(64, stream);
  FailingAllocations injector(host_device());
  std::size_t nth = 1, refused = 0;
  for (bool more = true; more && nth < most; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    const std::string name = "set " + std::to_string(nth);
    ipc::SetWriter writer(folder / "holder", name);
    writer.add("a", buffer.view(u8, {64}), stream);
    bool failed = false;
    injector.arm(nth, 0);
    try {
      (void)writer.commit(limit);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    more = injector.disarm().has_value();
    refused += failed ? 1 : 0;
    ipc::SetReader reader(folder / "holder", name);
    if (failed) {
      EXPECT_ERROR(reader.open(stream, 1ms), Errc::timed_out, "");
    }
    writer.add("b", buffer.view(u8, {64}), stream);
    (void)writer.commit(limit);
    EXPECT_EQ(reader.open(stream, limit).tensors.size(), failed ? 2U : 1U);
  }
  EXPECT_GE(refused, 3U);
  EXPECT_LT(nth, most) << "it never ends";
}

// The thread of the library reads for the lender.
TEST_F(ChannelShortOfMemory, ALenderKeepsWhatItLends) {
  FailingAllocations injector(host_device(), nullptr, Whose::others);
  std::size_t nth = 1;
  for (bool more = true; more && nth < most; ++nth) {
    Pair pair;
    Buffer held = lend(pair, 1);
    (void)detail::channel::settle_channels();
    injector.arm(nth, 0);
    send_some(pair.borrower);
    EXPECT_TRUE(eventually([&] { return pair.lender.stats().waiting == 3; }));
    more = injector.disarm().has_value();
    SCOPED_TRACE("allocation " + std::to_string(nth));
    (void)take_reports();
    EXPECT_EQ(receive_rest(pair.lender), 3U);
    expect_sound(pair, held);
  }
  EXPECT_GE(nth, 6U) << "three messages, and what is kept for them";
  EXPECT_LT(nth, most) << "it never ends";
}

// A word that could not go to another stream still stands for the one that had it.
TEST(WordsShortOfMemory, KeepTheirStreams) {
  const auto reached = [](const detail::PagePoint&) { return true; };
  FailingAllocations injector(host_device());
  detail::channel::Words words(1);
  ASSERT_EQ(words.of(1, reached), 0U);
  words.give(0, 1);
  injector.arm(1, 0);
  EXPECT_THROW((void)words.of(2, reached), std::bad_alloc);
  EXPECT_TRUE(injector.disarm().has_value());
  EXPECT_EQ(words.find(1), 0U);
  EXPECT_FALSE(words.find(2));
  EXPECT_EQ(words.of(2, reached), 0U);
  EXPECT_FALSE(words.find(1));
}

}  // namespace
}  // namespace weir::test
