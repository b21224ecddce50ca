// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "hold.hpp"
#include "second_try.hpp"
#include "time_limits.hpp"
#include "weir/buffer.hpp"
#include "weir/channel.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/leases.hpp"
#include "weir/pool.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

constexpr std::size_t small = 4096;
const std::chrono::seconds patience = answer_limit();  // for what is certainly wrong
constexpr std::chrono::milliseconds now{0};
using ipc::Parcel;

/// Throw what ended the connection at this end, if this end ended it. The other end only hears that it is over.
void ask_for_the_reason(ipc::Channel& channel, const Stream& stream) {
  try {
    (void)channel.receive(stream, now);
  } catch (const Error& error) {
    if (error.code() != Errc::timed_out && error.code() != Errc::peer_gone) throw;
  }
}

/// Two channels that are connected. `talk` gets one after the other.
template <class Talk>
void between_channels(const Stream& stream, const Talk& talk) {
  auto sockets = ipc::Channel::make_sockets();
  ipc::Channel mine(std::move(sockets.first)), theirs(std::move(sockets.second));
  const auto reason = [&] {
    ask_for_the_reason(mine, stream);
    ask_for_the_reason(theirs, stream);
  };
  try {
    talk(mine, theirs);
  } catch (const Error& error) {
    if (error.code() == Errc::peer_gone) reason();
    throw;
  }
  reason();
}

/// What is lent comes back, whatever fails.
void require_all_back(const ResourcePtr& resource) {
  require(ipc::wait_for_returns(*resource, 0, patience), "lent memory comes back");
}

// A new segment, then one that the peer knows.
void lend_over_a_channel(const Stage& stage) {
  const Stream stream(stage.device), reader(stage.device);
  Buffer buffer = stage.shareable->allocate(2 * small, stream);
  buffer.fill(std::byte{1}, stream);
  stream.synchronize();
  between_channels(stream, [&](ipc::Channel& mine, ipc::Channel& theirs) {
    for (const std::size_t offset : {std::size_t{0}, small}) {
      mine.send(buffer.slice(offset, small), stream, {}, patience);
      const Parcel got = theirs.receive(reader, patience);
      require(lands(got.buffer, reader, 1), "bytes of a lent buffer");
    }
    require_all_back(stage.shareable);
  });
}

// A buffer of a paged pool, in two pages: the receiver opens both, and puts them one behind the other.
void lend_pages(const Stage& stage) {
  const std::size_t page = stage.device.find(stage.shareable->kind())->granularity;
  const Stream stream(stage.device), reader(stage.device);
  const PoolPtr pool = make_pool(stage.shareable, {.segment_bytes = page, .exportable = true});
  {
    const Buffer one = pool->allocate(page, stream), next = pool->allocate(page, stream);
  }
  const Buffer buffer = pool->allocate(2 * page, stream);
  buffer.slice(page - small, 2 * small).fill(std::byte{6}, stream);
  stream.synchronize();
  between_channels(stream, [&](ipc::Channel& mine, ipc::Channel& theirs) {
    for (int i = 0; i < 2; ++i) {  // what could not be told the first time is told with the next call
      mine.send(buffer, stream, {}, patience);
      const Parcel got = theirs.receive(reader, patience);
      require(lands(got.buffer.slice(page - small, 2 * small), reader, 6), "bytes on both sides of a page's end");
    }
    require_all_back(pool);
  });
}

// The receiver's stream waits for a word of the sender's timeline page, and no host does.
void wait_for_a_peers_work(const Stage& stage) {
  Hold hold;
  const Stream writer(stage.device), reader(stage.device);
  Buffer buffer = stage.shareable->allocate(small, writer);
  writer.wait(hold.event());
  buffer.fill(std::byte{2}, writer);
  between_channels(reader, [&](ipc::Channel& mine, ipc::Channel& theirs) {
    mine.send(buffer, writer, {}, patience);
    Parcel got = theirs.receive(reader, patience);
    require(!reader.record().done(), "the reader waits for the writer");
    hold.open();
    require(lands(got.buffer, reader, 2), "bytes after the writer's work");
    got.buffer.close();
    require_all_back(stage.shareable);
  });
}

void lend_for_reading(const Stage& stage) {
  const Stream stream(stage.device), reader(stage.device);
  Buffer buffer = stage.shareable->allocate(small, stream);
  buffer.fill(std::byte{3}, stream);
  stream.synchronize();
  between_channels(stream, [&](ipc::Channel& mine, ipc::Channel& theirs) {
    mine.send(buffer, stream, {}, patience, ipc::Access::read_only);
    Parcel got = theirs.receive(reader, patience);
    require(got.access == ipc::Access::read_only, "access");
    require(lands(got.buffer, reader, 3), "bytes of a buffer for reading");
    try {
      got.buffer.fill(std::byte{4}, reader);
    } catch (const Error& error) {
      if (error.code() != Errc::permission_denied) throw;
      return;
    }
    throw WrongResult{"a buffer for reading was written"};
  });
}

/// The next frame. One that could not be sent is sent with the one after it.
ipc::Frame next_frame(ipc::RingProducer& producer, ipc::RingConsumer& consumer, const Stream& stream,
                      const Stream& reader) {
  constexpr std::chrono::milliseconds soon{50};
  constexpr int most = 100;
  for (int i = 0; i < most; ++i) {
    try {
      return consumer.next(reader, soon);
    } catch (const Error& error) {
      if (error.code() != Errc::timed_out) throw;
    }
    Buffer slot = producer.acquire(stream, patience);
    slot.fill(std::byte{5}, stream);
    (void)producer.publish(std::move(slot), stream);
  }
  throw WrongResult{"frames for the consumer"};
}

/// The first frame. A consumer that fails once goes on where it was, unless the failure has ended the connection or the
/// memory is refused for good.
ipc::Frame first_frame(ipc::RingProducer& producer, ipc::RingConsumer& consumer, const Stream& stream,
                       const Stream& reader) {
  try {
    return next_frame(producer, consumer, stream, reader);
  } catch (const std::exception&) {
    try {
      (void)next_frame(producer, consumer, stream, reader);
    } catch (const Error& error) {
      require(std::string_view(error.what()).find("no ring's producer") == std::string_view::npos,
              "frames for a consumer that failed");
    } catch (const std::exception&) {  // the failure that ended the connection
    }
    throw;
  }
}

// A consumer that fails leaves the producer as it was: the next one gets frames, and every slot comes back.
void pass_frames(const Stage& stage) {
  constexpr std::size_t slots = 5;  // enough for two consumers
  const Stream stream(stage.device);
  ipc::RingProducer producer(stage.shareable,
                             {.slots = slots, .slot_bytes = small, .policy = ipc::RingPolicy::drop_oldest});
  with_second_try("a ring", [&] {
    const Stream reader(stage.device);  // is lost with a producer that it waits for
    auto sockets = ipc::Channel::make_sockets();
    ipc::RingConsumer consumer(std::move(sockets.second));
    const auto id = producer.add_consumer(std::move(sockets.first));
    Buffer slot = producer.acquire(stream, patience);
    slot.fill(std::byte{5}, stream);
    ipc::Parcel frame{std::move(slot)};
    with_second_try("publish", [&] { return producer.publish({&frame, 1}, stream); });
    const ipc::Frame got = first_frame(producer, consumer, stream, reader);
    require(lands(got.buffer, reader, 5), "bytes of a frame");
    producer.remove_consumer(id);
    return 0;
  });
  require_all_back(stage.shareable);
  std::array<Buffer, slots> all;
  for (Buffer& slot : all) slot = producer.acquire(stream, patience);
}

std::optional<Lack> shares_nothing_for_reading(const Stage& stage) {
  if (auto lack = shares_nothing(stage)) return lack;
  if (stage.device.backend() != "vulkan") return {};
  return Lack{Lasting::permanent, "whoever opens Vulkan memory can write it"};
}

std::optional<Lack> shares_no_pages(const Stage& stage) {
  if (auto lack = shares_nothing(stage)) return lack;
  if (stage.device.find(stage.shareable->kind())->paged) return {};
  return Lack{Lasting::permanent, "memory of this kind does not come and go by pages"};
}

constexpr Scenario over_sockets[] = {
    {"lend_over_a_channel", &lend_over_a_channel, &shares_nothing},
    {"lend_pages", &lend_pages, &shares_no_pages},
    {"wait_for_a_peers_work", &wait_for_a_peers_work, &shares_nothing},
    {"lend_for_reading", &lend_for_reading, &shares_nothing_for_reading},
    {"pass_frames", &pass_frames, &shares_nothing},
};

}  // namespace

std::span<const Scenario> peers() { return over_sockets; }

}  // namespace weir::test
