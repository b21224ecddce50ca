// SPDX-License-Identifier: Apache-2.0
// Functions of the caller that throw where nobody can catch: each goes to the failure sink once, and the stream goes on.

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

#include "fixture.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

struct NotAnException {};

class Callbacks : public OnDevice {
 protected:
  static std::size_t count(const std::vector<Reported>& reports, std::string_view text) {
    std::size_t found = 0;
    for (const Reported& report : reports) found += report.message.find(text) != std::string::npos ? 1 : 0;
    return found;
  }
};
WEIR_FOR_EACH_DEVICE(Callbacks);

TEST_P(Callbacks, WhateverTheyThrowIsReported) {
  stream.call([] { throw std::runtime_error("spilt milk"); });
  stream.call([] { throw NotAnException{}; });
  stream.call([] { throw 42; });
  stream.call([] { throw Error(Errc::unsupported, "broken cup"); });
  stream.call([] { throw std::bad_alloc(); });
  stream.synchronize();
  const auto reports = take_reports();
  EXPECT_EQ(reports.size(), 5U);
  EXPECT_EQ(count(reports, "spilt milk"), 1U);
  EXPECT_EQ(count(reports, "broken cup"), 1U);
  EXPECT_EQ(count(reports, "unknown exception"), 2U);
  for (const Reported& report : reports) EXPECT_NE(report.where.find("Stream::call"), std::string::npos);
}

TEST_P(Callbacks, OrderSurvivesThem) {
  const ResourcePtr resource = make_resource(device());
  Buffer buffer = resource->allocate(100, stream);
  std::vector<Bytes> seen(10, Bytes(100));
  for (std::uint8_t i = 0; i < 10; ++i) {
    buffer.fill(i, stream);
    stream.call([i] { throw std::runtime_error("number " + std::to_string(i)); });
    buffer.copy_to(seen[i], stream);
  }
  const Stream other(device());
  other.wait(stream.record());
  other.synchronize();
  for (std::uint8_t i = 0; i < 10; ++i) EXPECT_BYTES(seen[i], repeat(100, i));
  const auto reports = take_reports();
  EXPECT_EQ(reports.size(), 10U);
  EXPECT_EQ(count(reports, "number 7"), 1U);
}

TEST_P(Callbacks, WhatAThrowingOneOwnsEnds) {
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> observed = owned;
  stream.call([moved = std::move(owned)] { throw std::runtime_error(std::to_string(*moved)); });
  stream.synchronize();
  while (!observed.expired()) std::this_thread::yield();  // the watchdog ends it otherwise
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST_P(Callbacks, ThrowingReleasesOfAdoptedMemoryAreReported) {
  static std::array<std::byte, 4096> memory;  // may be read late
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  ResourcePtr external;
  {
    Buffer first = Buffer::from_handle(host_device(), address, 64, [] { throw std::runtime_error("kept key"); }, stream);
    Buffer second = Buffer::from_handle(host_device(), address + 64, 64, [] { throw NotAnException{}; }, stream);
    external = first.memory_resource();
    first.fill(std::uint8_t{1}, stream);
    second.copy_from(first, stream);
  }
  stream.synchronize();
  external->trim(0);
  const auto reports = take_reports();
  EXPECT_EQ(reports.size(), 2U);
  EXPECT_EQ(count(reports, "kept key"), 1U);
  EXPECT_EQ(count(reports, "unknown exception"), 1U);
}

TEST_P(Callbacks, ManyStreamsAtOnce) {
  Gate gate;
  std::vector<Stream> streams;
  std::atomic<int> ran{0};
  for (int i = 0; i < 8; ++i) {
    const Stream& own = streams.emplace_back(device());
    gate.hold(own);
    own.call([i] { throw std::runtime_error("stream " + std::to_string(i)); });
    own.call([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 0);
  gate.open();
  for (const Stream& own : streams) own.synchronize();
  EXPECT_EQ(ran, 8);
  EXPECT_EQ(take_reports().size(), 8U);
}

}  // namespace
}  // namespace weir::test
