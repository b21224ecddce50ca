// SPDX-License-Identifier: Apache-2.0
// Memory that is lent for reading alone, in each way in which memory is lent.

#include <dlpack/dlpack.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fds.hpp"
#include "fixture.hpp"
#include "folder.hpp"
#include "settle.hpp"
#include "spawn.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/managed_tensor.hpp"
#include "weir/pool.hpp"
#include "weir/ring.hpp"
#include "weir/server.hpp"
#include "weir/spi/segment.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Access;
using ipc::Channel;

const std::chrono::seconds limit = answer_limit();

class ReadOnly : public OnMemory {
 protected:
  /// Drivers of Vulkan give whoever opens memory the right to write it.
  [[nodiscard]] bool can_be_lent() const { return device().backend() != "vulkan"; }

  static std::pair<Channel, Channel> make_channels() {
    auto [one, other] = Channel::make_sockets();
    return {Channel(std::move(one)), Channel(std::move(other))};
  }

  void expect_reader(Buffer& borrowed, std::uint32_t seed) const {
    EXPECT_TRUE(borrowed.is_read_only());
    EXPECT_BYTES(read(borrowed, stream), pattern(borrowed.size(), seed));
    EXPECT_ERROR(borrowed.fill(std::uint8_t{1}, stream), Errc::permission_denied, "read-only");
    EXPECT_ERROR(borrowed.copy_from(Bytes(borrowed.size()), stream), Errc::permission_denied, "read-only");
    expect_not_mapped_writable(borrowed);
  }

 private:
  // The kernel writes for a call of read() where the process itself could write.
  static void expect_not_mapped_writable(const Buffer& borrowed) {
    if (!borrowed.host_data()) return;
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const spi::UniqueFd from(ends[0]), to(ends[1]);
    ASSERT_EQ(::write(to.get(), "x", 1), 1);
    EXPECT_EQ(::read(from.get(), const_cast<std::byte*>(borrowed.host_data()), 1), -1);
    EXPECT_EQ(errno, EFAULT);
  }
};
WEIR_FOR_EACH_EXPORTABLE(ReadOnly);

TEST_P(ReadOnly, TheReceiverReadsAndCannotWrite) {
  if (!can_be_lent()) return;
  auto [here, there] = make_channels();
  Buffer buffer = filled(pattern(5000, 1));
  here.send(buffer, stream, {}, limit, Access::read_only);
  ipc::Parcel parcel = there.receive(stream, limit);
  EXPECT_EQ(parcel.access, Access::read_only);
  expect_reader(parcel.buffer, 1);
  write(buffer, pattern(5000, 2), stream);
  stream.synchronize();
  expect_reader(parcel.buffer, 2);
  EXPECT_FALSE(buffer.is_read_only());
}

TEST_P(ReadOnly, WhereTheDriverCannotItIsRefused) {
  if (can_be_lent()) return;
  constexpr const char* why = "cannot be lent for reading alone";
  auto [here, there] = make_channels();
  const Buffer buffer = filled(pattern(5000, 1));
  const auto before = open_fds();
  EXPECT_ERROR(here.send(buffer, stream, {}, limit, Access::read_only), Errc::unsupported, why);
  EXPECT_EQ(here.stats().lent + here.stats().known, 0U);
  EXPECT_ERROR(buffer.ipc_descriptor(stream, Access::read_only), Errc::unsupported, why);
  EXPECT_ERROR(ipc::RingProducer(resource, {.slot_bytes = 100, .access = Access::read_only}), Errc::unsupported, why);
  const Folder folder;
  {
    ipc::Server server(folder / "server");
    EXPECT_ERROR(server.publish("a", buffer, stream, Access::read_only), Errc::unsupported, why);
    EXPECT_TRUE(server.names().empty());
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open_fds() > before && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(open_fds(), before) << describe_fds();
  here.send(buffer, stream, {}, limit);
  EXPECT_EQ(there.receive(stream, limit).access, Access::read_write);
}

// The segment is told of once for each access, and the peer has two views of one memory.
TEST_P(ReadOnly, OneBufferCanBeLentBothWays) {
  if (!can_be_lent()) return;
  auto [here, there] = make_channels();
  {
    const Buffer buffer = filled(pattern(5000, 1));
    std::vector<ipc::Parcel> parcels;
    for (const Access access : {Access::read_only, Access::read_write, Access::read_only, Access::read_write})
      parcels.push_back({buffer.share(), {}, access});
    EXPECT_EQ(here.send(parcels, stream, limit), parcels.size());
    std::vector<Buffer> got;
    for (const ipc::Parcel& sent : parcels) {
      ipc::Parcel parcel = there.receive(stream, limit);
      EXPECT_EQ(parcel.access, sent.access);
      EXPECT_EQ(parcel.buffer.is_read_only(), sent.access == Access::read_only);
      got.push_back(std::move(parcel.buffer));
    }
    EXPECT_EQ(here.stats().known, 2U);
    EXPECT_EQ(there.stats().opened, 2U);
    expect_reader(got[0], 1);
    write(got[1], pattern(5000, 2), stream);
    stream.synchronize();
    expect_reader(got[2], 2);
    EXPECT_ERROR(got[1].copy_from(got[0], stream), Errc::invalid_argument, "overlap");
  }
  stream.synchronize();
  resource->trim(0);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (here.stats().lent != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  await_releases();
  resource->trim(0);
  if (resource->reuses_memory()) return;
  while (here.stats().known != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(here.stats().known, 0U) << "a segment that is gone is still known with one of its accesses";
}

TEST_P(ReadOnly, NobodyPassesOnMoreThanItHas) {
  if (!can_be_lent()) return;
  auto [here, middle] = make_channels();
  auto [onward, there] = make_channels();
  const Buffer buffer = filled(pattern(5000, 1));
  here.send(buffer, stream, {}, limit, Access::read_only);
  const ipc::Parcel parcel = middle.receive(stream, limit);
  if (!parcel.buffer.location().segment->exportable) return;  // drivers of CUDA export no memory of others
  onward.send(parcel.buffer, stream, {}, limit, Access::read_write);
  ipc::Parcel last = there.receive(stream, limit);
  EXPECT_EQ(last.access, Access::read_only);
  expect_reader(last.buffer, 1);
  Buffer opened = ipc::open(parcel.buffer.ipc_descriptor(stream), stream);
  expect_reader(opened, 1);
}

TEST_P(ReadOnly, WhatIsExportedOfItSaysSo) {
  if (!can_be_lent()) return;
  auto [here, there] = make_channels();
  const Buffer buffer = filled(pattern(4000, 1));
  here.send(buffer, stream, {}, limit, Access::read_only);
  const ipc::Parcel parcel = there.receive(stream, limit);
  const auto managed = parcel.buffer.view(f32, {1000}).to_dlpack(stream);
  EXPECT_NE(managed.get()->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0U);
}

TEST_P(ReadOnly, DescriptorsDoTheSame) {
  if (!can_be_lent()) return;
  Buffer buffer = filled(pattern(5000, 1));
  Buffer reads = ipc::open(buffer.ipc_descriptor(stream, Access::read_only), stream);
  expect_reader(reads, 1);
  Buffer writes = ipc::open(buffer.ipc_descriptor(stream), stream);
  write(writes, pattern(5000, 2), stream);
  stream.synchronize();
  expect_reader(reads, 2);
}

TEST_P(ReadOnly, ConsumersOfARing) {
  if (!can_be_lent()) return;
  ipc::RingProducer producer{resource, {.slots = 3, .slot_bytes = 600, .access = Access::read_only}};
  auto [mine, theirs] = Channel::make_sockets();
  (void)producer.add_consumer(std::move(mine));
  ipc::RingConsumer consumer(std::move(theirs));
  for (std::uint32_t i = 0; i < 5; ++i) {
    Buffer slot = producer.acquire(stream, limit);
    EXPECT_FALSE(slot.is_read_only());
    write(slot, pattern(600, i), stream);
    producer.publish(std::move(slot), stream);
    ipc::Frame frame = consumer.next(stream, limit);
    expect_reader(frame.buffer, i);
  }
}

TEST_P(ReadOnly, ClientsOfAServer) {
  if (!can_be_lent()) return;
  const Folder folder;
  ipc::Server server(folder / "server");
  const Buffer shown = filled(pattern(5000, 1)), given = filled(pattern(5000, 2));
  server.publish("shown", shown, stream, Access::read_only);
  server.publish("given", given, stream);
  ipc::Client client(folder / "server", limit);
  const std::string where = device().id() + ' ' + std::string(to_string(shown.kind()));
  const auto listed = client.list("*", limit);
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].where, where);
  EXPECT_EQ(listed[1].where, where + ", read-only");
  Tensor reads = client.get("shown", stream, limit), writes = client.get("given", stream, limit);
  expect_reader(reads.buffer(), 1);
  EXPECT_FALSE(writes.buffer().is_read_only());
}

TEST_P(ReadOnly, InAnotherProcess) {
  if (!can_be_lent()) return;
  Child child(WEIR_CHILD_DIR "/channel_child", {"read", device().id(), "20"});
  auto [mine, theirs] = Channel::make_sockets();
  std::vector<spi::UniqueFd> files;
  files.push_back(std::move(theirs));
  ipc::send(child.socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
  Channel channel(std::move(mine));
  const Buffer buffer = filled(pattern(20 * 300, 1));
  for (std::size_t i = 0; i < 20; ++i)
    channel.send(buffer.slice(i * 300, 300), stream, part(pattern(20 * 300, 1), i * 300, 200), limit,
                 Access::read_only);
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_BYTES(read(buffer, stream), pattern(20 * 300, 1));
}

// Whatever is asked for, peers get no more than the seal lets them have.
TEST(SealedForPeers, EverybodyElseOnlyReads) {
  const Stream stream(host_device());
  const auto resource = host::make_shared_resource({.read_only_for_peers = true});
  for (const ResourcePtr& from : {resource, ResourcePtr(make_pool(resource, {.exportable = true}))}) {
    Buffer buffer = from->allocate(5000, stream);
    write(buffer, pattern(5000, 1), stream);
    Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
    EXPECT_TRUE(opened.is_read_only());
    EXPECT_BYTES(read(opened, stream), pattern(5000, 1));
    EXPECT_FALSE(buffer.is_read_only());
    write(buffer, pattern(5000, 2), stream);
    EXPECT_BYTES(read(opened, stream), pattern(5000, 2));
  }
}

}  // namespace
}  // namespace weir::test
