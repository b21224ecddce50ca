// SPDX-License-Identifier: Apache-2.0
// Rings: consumers and producers in other processes, that are killed, and peers that lie.

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "expect.hpp"
#include "ring_fixture.hpp"
#include "rounds.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Channel;
using ipc::RingConsumer;
using ipc::RingPolicy;
using ipc::RingProducer;

class RingProcesses : public Rings {
 protected:
  [[nodiscard]] Child spawn(const std::string& mode, std::size_t count) const {
    return {WEIR_CHILD_DIR "/ring_child", {mode, device().id(), std::to_string(count)}};
  }
  /// Return a socket whose other end goes to the child.
  static spi::UniqueFd connect(const Child& child) {
    auto [mine, theirs] = Channel::make_sockets();
    std::vector<spi::UniqueFd> files;
    files.push_back(std::move(theirs));
    ipc::send(child.socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
    return std::move(mine);
  }
};
WEIR_FOR_EACH_EXPORTABLE(RingProcesses);

TEST_P(RingProcesses, ThreeReadersGetEveryFrame) {
  RingProducer producer(resource, {.slots = 4, .slot_bytes = bytes});
  Child first = spawn("read", 60), second = spawn("read", 60), third = spawn("read", 60);
  for (const Child* child : {&first, &second, &third}) {
    (void)producer.add_consumer(connect(*child));
    EXPECT_EQ(child->line(),
              "open");  // one after the other: Mesa's CPU driver moves the position of the file they share
  }
  for (std::uint32_t i = 0; i < 60; ++i) publish(producer, i, stream);
  for (Child* child : {&first, &second, &third}) {
    EXPECT_EQ(child->line(), "done");
    EXPECT_EQ(child->wait(), 0);
  }
  EXPECT_EQ(free_slots(producer, 4), 4U);
}

TEST_P(RingProcesses, AKilledReaderGivesAllItsSlotsBack) {
  RingProducer producer(resource, {.slots = 3, .slot_bytes = bytes, .per_consumer = 3});
  Child child = spawn("hold", 3);
  (void)producer.add_consumer(connect(child));
  for (std::uint32_t i = 0; i < 3; ++i) publish(producer, i, stream);
  EXPECT_EQ(child.line(), "holds");
  EXPECT_ERROR(producer.acquire(stream, 5ms), Errc::timed_out, "consumers, which hold 3");
  child.kill();
  (void)producer.acquire(stream, limit);
  EXPECT_EQ(free_slots(producer, 3), 3U);
  EXPECT_TRUE(producer.stats().consumers.empty());
}

// The acquire is already waiting when the reader dies.
TEST_P(RingProcesses, AReaderThatIsKilledEndsTheWait) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = bytes});
  Child child = spawn("hold", 2);
  (void)producer.add_consumer(connect(child));
  RingConsumer other = join(producer);
  publish(producer, 0, stream);
  publish(producer, 1, stream);
  EXPECT_EQ(child.line(), "holds");
  for (std::uint32_t i = 0; i < 2; ++i) expect_frame(other.next(stream, limit), i, 0);
  const Thread killing([&] { child.kill(); });
  publish(producer, 2, stream);
  expect_frame(other.next(stream, limit), 2, 0);
}

TEST_P(RingProcesses, AStoppedReaderStopsNobodyWhoDrops) {
  RingProducer producer(resource, {.slots = 5, .slot_bytes = bytes, .policy = RingPolicy::drop_oldest});
  Child child = spawn("hold", 2);
  (void)producer.add_consumer(connect(child));
  RingConsumer other = join(producer);
  for (std::uint32_t i = 0; i < 40; ++i) {
    publish(producer, i, stream);
    expect_frame(other.next(stream, limit), i, 0);
  }
  EXPECT_EQ(child.line(), "holds");
  child.say("go");
  EXPECT_EQ(child.line(), "done");
}

TEST_P(RingProcesses, AProducerThatIsKilledIsGoneForItsReader) {
  Child child = spawn("make", 4);
  RingConsumer consumer(connect(child));
  const ipc::Frame held = consumer.next(stream, limit);
  expect_frame(consumer.next(stream, limit), 1, 0);
  EXPECT_EQ(child.line(), "made");
  child.kill();
  EXPECT_BYTES(read(held.buffer, stream), pattern(bytes, 0));
  EXPECT_EQ(error_at_end(consumer), Errc::peer_gone);
}

TEST_P(RingProcesses, FramesComeFromThere) {
  Child child = spawn("make", 50);
  RingConsumer consumer(connect(child));
  for (std::uint32_t i = 0; i < 50; ++i) expect_frame(consumer.next(stream, limit), i, 0);
  child.say("go");
  EXPECT_EQ(child.line(), "made");
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(error_at_end(consumer), Errc::peer_gone);
}

TEST_P(RingProcesses, LeaveNoFilesBehind) {
  const auto round = [&] {
    RingProducer producer(resource, {.slots = 3, .slot_bytes = bytes});
    RingConsumer consumer = join(producer);
    const RingConsumer silent = join(producer);
    publish(producer, 0, stream);
    expect_frame(consumer.next(stream, limit), 0, 0);
    publish(producer, 1, stream);
  };
  expect_rounds_leave_no_files(round, stream, *resource, limit);
}

/// A ring on host memory whose other end is a plain channel, which says what it likes.
class RingLies : public Excludable {
 protected:
  const Stream stream{host_device()};
  const Buffer buffer = host::make_shared_resource()->allocate(64, stream);

  static Bytes bytes_of(std::initializer_list<int> values) {
    Bytes bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  }
  /// A greeting with layout u8[4]: the fields of src/ipc/ring/greeting.cpp.
  static Bytes greeting() {
    Bytes bytes(48);
    const std::string magic = "weirring";
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(magic[i]);
    bytes[8] = bytes[10] = bytes[11] = std::byte{1};  // version, has a layout, one dimension
    bytes[12] = std::byte{1}, bytes[13] = std::byte{8}, bytes[14] = std::byte{1};
    bytes[32] = std::byte{4}, bytes[40] = std::byte{1};  // shape, stride
    return bytes;
  }
  /// Return what the consumer makes of these payloads, which come with buffers of 64 bytes.
  void expect_refusal(const std::vector<Bytes>& payloads, Errc code, const char* what) {
    auto [mine, theirs] = Channel::make_sockets();
    Channel liar(std::move(mine));
    RingConsumer consumer(std::move(theirs));
    for (const Bytes& payload : payloads) liar.send(buffer, stream, payload);
    liar.close();
    const auto all = [&] {
      for (;;) (void)consumer.next(stream, std::chrono::seconds{30});
    };
    EXPECT_ERROR(all(), code, what);
    EXPECT_ERROR(consumer.next(stream), Errc::closed, "");
  }
};

TEST_F(RingLies, AreRefused) {
  const Bytes number = bytes_of({5, 0, 0, 0, 0, 0, 0, 0}), earlier = bytes_of({4, 0, 0, 0, 0, 0, 0, 0});
  expect_refusal({{}}, Errc::corrupt_descriptor, "no greeting");
  expect_refusal({Bytes(48)}, Errc::corrupt_descriptor, "no greeting");
  const auto with = [](std::size_t at, int value) {
    Bytes bytes = greeting();
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  expect_refusal({with(8, 2)}, Errc::incompatible, "version 2");
  expect_refusal({with(10, 2)}, Errc::corrupt_descriptor, "size");
  expect_refusal({with(10, 0)}, Errc::corrupt_descriptor, "size");
  expect_refusal({with(11, 2)}, Errc::corrupt_descriptor, "size");
  expect_refusal({with(11, 255)}, Errc::corrupt_descriptor, "size");
  expect_refusal({with(13, 0)}, Errc::corrupt_descriptor, "bits");
  expect_refusal({with(39, 0x80)}, Errc::corrupt_descriptor, "negative");
  expect_refusal({with(39, 0x7f), number}, Errc::corrupt_descriptor, "smaller");
  expect_refusal({with(47, 0x80)}, Errc::corrupt_descriptor, "beyond");
  expect_refusal({with(32, 65), number}, Errc::corrupt_descriptor, "smaller");
  expect_refusal({greeting(), bytes_of({1, 2, 3})}, Errc::corrupt_descriptor, "number");
  expect_refusal({greeting(), number, earlier}, Errc::corrupt_descriptor, "later");
  expect_refusal({greeting(), number, number}, Errc::corrupt_descriptor, "later");
}

// It says that it takes frames, and takes none; it lends, where nobody borrows; and it says what is no packet.
TEST_F(RingLies, OfAConsumerEndItsConnectionAlone) {
  RingProducer producer(host::make_shared_resource(),
                        {.slots = 8, .slot_bytes = 64, .policy = RingPolicy::drop_oldest});
  auto [mine, theirs] = Channel::make_sockets();
  auto [sender_mine, sender_theirs] = Channel::make_sockets();
  auto [junk_mine, junk] = Channel::make_sockets();
  (void)producer.add_consumer(std::move(mine));
  (void)producer.add_consumer(std::move(sender_mine));
  (void)producer.add_consumer(std::move(junk_mine));
  const Channel silent(std::move(theirs));
  Channel sender(std::move(sender_theirs));
  sender.send(buffer, stream);
  ASSERT_EQ(::send(junk.get(), "junk", 4, 0), 4);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (producer.stats().consumers.size() != 1 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(producer.stats().consumers.size(), 1U) << "junk is no packet, and a buffer is no frame";
  for (int i = 0; i < 30; ++i) (void)producer.publish(producer.acquire(stream, 30s), stream);
  EXPECT_LE(producer.stats().consumers.at(0).held, 2U);
}

TEST(RingArguments, AreChecked) {
  const auto memory = host::make_shared_resource();
  const Stream stream(host_device());
  const auto refused = [&](const ipc::RingOptions& options, const char* what) {
    EXPECT_ERROR((RingProducer(memory, options)), Errc::invalid_argument, what);
  };
  EXPECT_ERROR((RingProducer(nullptr, {.slot_bytes = 1})), Errc::invalid_argument, "no resource");
  EXPECT_ERROR((RingProducer(make_resource(host_device()), {.slot_bytes = 1})), Errc::unsupported, "exportable");
  refused({}, "slot_bytes");
  refused({.slots = 1, .slot_bytes = 1}, "1 slots");
  refused({.slots = 65537, .slot_bytes = 1}, "65537");
  refused({.slot_bytes = 1, .per_consumer = 0}, "0 slots per consumer");
  refused({.slot_bytes = 1, .per_consumer = 9}, "9 slots per consumer");
  refused({.slot_bytes = 3, .layout = Layout::compact(f32, {1})}, "4 bytes");
  refused({.layout = Layout::compact(u8, {1, 1, 1, 1, 1, 1, 1, 1, 1})}, "9 dimensions");
  EXPECT_THROW((RingProducer(memory, {.slots = 3, .slot_bytes = SIZE_MAX / 2})), OutOfMemory);

  RingProducer producer(memory, {.slots = 3, .slot_bytes = 100}), other(memory, {.slots = 3, .slot_bytes = 100});
  EXPECT_ERROR(producer.add_consumer(spi::UniqueFd{}), Errc::invalid_argument, "add_consumer");
  EXPECT_ERROR(producer.add_consumer(std::move(socket_pair(SOCK_STREAM).first)), Errc::invalid_argument, "SEQPACKET");
  EXPECT_ERROR((RingConsumer(std::move(Channel::make_sockets().first), {.ahead = 0})), Errc::invalid_argument,
               "window");
  EXPECT_ERROR(producer.acquire_tensor(stream), Errc::invalid_argument, "no layout");
  EXPECT_ERROR(producer.publish(other.acquire(stream), stream), Errc::invalid_argument, "no slot");
  EXPECT_ERROR(producer.publish(memory->allocate(100, stream), stream), Errc::invalid_argument, "no slot");
  EXPECT_ERROR(producer.publish(Buffer(), stream), Errc::closed, "");
  EXPECT_ERROR(producer.publish(producer.acquire(stream), stream, Bytes(249)), Errc::invalid_argument, "249");
  ipc::Parcel two[] = {{producer.acquire(stream), {}}, {producer.acquire(stream), Bytes(300)}};
  EXPECT_ERROR(producer.publish(two, stream), Errc::invalid_argument, "300");
  EXPECT_FALSE(two[0].buffer.is_closed());
  EXPECT_EQ(producer.stats().published, 0U);
  EXPECT_ERROR(ipc::Frame().tensor(), Errc::invalid_argument, "layout");
}

}  // namespace
}  // namespace weir::test
