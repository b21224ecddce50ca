// SPDX-License-Identifier: Apache-2.0
// Resources in words: what they become, and where in the text an error points.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gate.hpp"
#include "memory.hpp"
#include "replay/spec.hpp"
#include "weir/buffer.hpp"
#include "weir/pool.hpp"

namespace weir::replay {
namespace {

struct Refusal {
  std::size_t at = std::string::npos;
  std::string message;
};

/// How the text is refused, by the parser or when the resource is made.
Refusal refusal(const std::string& text) {
  try {
    (void)Spec(text).make();
  } catch (const SpecError& error) {
    return {error.at(), error.what()};
  }
  return {};
}

#define EXPECT_REFUSED(text, position, what)                                     \
  do {                                                                           \
    const Refusal refused = refusal(text);                                       \
    EXPECT_EQ(refused.at, std::size_t{position}) << refused.message;             \
    EXPECT_NE(refused.message.find(what), std::string::npos) << refused.message; \
  } while (false)

TEST(Sizes, HaveBinaryUnits) {
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("512"), 512U);
  EXPECT_EQ(parse_bytes("7B"), 7U);
  EXPECT_EQ(parse_bytes("64KiB"), 65536U);
  EXPECT_EQ(parse_bytes("3MiB"), 3U << 20U);
  EXPECT_EQ(parse_bytes("2GiB"), std::uint64_t{2} << 30U);
  EXPECT_EQ(parse_bytes("16777215TiB"), std::uint64_t{16777215} << 40U);
  for (const char* wrong :
       {"", "KiB", "-1", "1.5GiB", "64kB", "2 GiB", "16777216TiB", "18446744073709551616", "1KiBs"}) {
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
  }
}

TEST(Specs, NameMemoryAsTheListOfDevicesDoes) {
  EXPECT_EQ(Spec("host").make()->name(), "host.pageable");
  EXPECT_EQ(Spec(" host:0.shared ").make()->name(), "host.shared");
  for (const Device& device : devices()) {
    for (const KindInfo& info : device.kinds()) {
      const ResourcePtr resource = Spec(device.id() + '.' + std::string(to_string(info.kind))).make();
      EXPECT_EQ(resource->device(), device);
      EXPECT_EQ(resource->kind(), info.kind);
    }
    EXPECT_EQ(Spec(device.id()).make()->kind(), device.default_kind());
  }
}

TEST(Specs, Compose) {
  const ResourcePtr resource =
      Spec("pool( pool(host.shared,segment=8MiB),limit = 2MiB , reuse=passed_only)").make();
  EXPECT_EQ(resource->name(), "pool(pool(host.shared))");
  EXPECT_EQ(resource->upstream()->upstream()->kind(), MemoryKind::shared);
  const Stream stream(resource->device());
  const Buffer first = resource->allocate(1 << 20, stream);
  EXPECT_EQ(resource->upstream()->stats().reserved, std::size_t{8} << 20U);
  EXPECT_FALSE(resource->try_allocate(2 << 20, stream).has_value()) << "the limit holds";
}

TEST(Specs, HaveEveryAdaptorUnderTheNameThatItGivesItself) {
  const std::string file = testing::TempDir() + "weir-spec-" + std::to_string(::getpid());
  for (const Adaptor& adaptor : adaptors()) {
    if (adaptor.name == "prefetch") continue;  // there is nothing on the host that it could move
    std::string text = std::string(adaptor.name) + "(host.shared";
    for (const Parameter& parameter : adaptor.parameters) {
      if (parameter.required) text += ", " + (parameter.type == Parameter::Type::text ? file : "4KiB");
    }
    const ResourcePtr resource = Spec(text + ')').make();
    EXPECT_EQ(resource->name(), std::string(adaptor.name) + "(host.shared)");
    EXPECT_EQ(resource->upstream()->name(), "host.shared");
  }
  std::filesystem::remove(file);
}

TEST(Specs, PassOnWhatTheyAreGiven) {
  const Stream stream(host_device());
  const ResourcePtr limited = Spec("limit(pool(host), 2KiB)").make();
  EXPECT_TRUE(limited->try_allocate(2048, stream).has_value());
  EXPECT_FALSE(limited->try_allocate(2049, stream).has_value());
  const ResourcePtr aligned = Spec("aligned(host, 64KiB, threshold=1000)").make();
  EXPECT_EQ(aligned->allocate(1000, stream).device_address() % 65536, 0U);
  EXPECT_REFUSED("pool(prefetch(host))", 5, "prefetch");
  const ResourcePtr pooled = Spec("pool(host, initial=3MiB)").make();
  EXPECT_EQ(pooled->stats().reserved, 3U << 20U);
}

TEST(Specs, PassOnWhenAPoolMayWait) {
  const Stream held(host_device()), other(host_device());
  const ResourcePtr resource = Spec("pool(host, segment=1MiB, reuse=wait_rather_than_grow)").make();
  Buffer first = resource->allocate(1 << 20, held);
  test::Gate gate;
  gate.hold(held);
  first.fill(std::uint8_t{1}, held);
  first.close();
  (void)resource->allocate(1 << 20, other);
  const PoolStats stats = dynamic_cast<const Pool&>(*resource).pool_stats();
  EXPECT_EQ(stats.waits, 1U);
  EXPECT_EQ(stats.grown, 1U);
}

TEST(Specs, PassOnWhatDebuggingTakes) {
  const Stream stream(host_device());
  const ResourcePtr guarded = Spec("debug(host, guard=64KiB)").make();
  const Buffer buffer = guarded->allocate(1000, stream);
  EXPECT_GE(guarded->upstream()->stats().in_use, 2 * 65536U + 1000U);
  const ResourcePtr keeps = Spec("debug(host, quarantine=64MiB)").make();
  Buffer closed = keeps->allocate(20 << 20, stream);
  stream.synchronize();
  closed.close();
  EXPECT_EQ(keeps->upstream()->stats().live_buffers, 1U) << "as much as that is not kept unless it is asked for";
}

TEST(Specs, TakeValuesInOrderAndByName) {
  EXPECT_EQ(Spec("pool(host, 2GiB, 64KiB)").to_string(), "pool(host, limit=2147483648, segment=65536)");
  EXPECT_EQ(Spec("pool(host, initial=1MiB, limit=2MiB)").to_string(),
            "pool(host, limit=2097152, initial=1048576)");
  EXPECT_EQ(Spec("pool(log(cuda:1.pinned, file=/tmp/a.b), reuse=wait_rather_than_grow)").to_string(),
            "pool(log(cuda:1.pinned, file=/tmp/a.b), reuse=wait_rather_than_grow)");
}

TEST(Specs, ErrorsPointAtThePlace) {
  EXPECT_REFUSED("", 0, "a resource is missing");
  EXPECT_REFUSED("pool()", 5, "a resource is missing");
  EXPECT_REFUSED("pool", 0, "pool stands over another resource");
  EXPECT_REFUSED("pool(log)", 5, "log stands over another resource");
  EXPECT_REFUSED("pol(host)", 0, "no adaptor is called pol; there are pool, limit, ");
  EXPECT_REFUSED("pool(host", 9, "closing bracket of pool");
  EXPECT_REFUSED("pool(host))", 10, "more than one resource");
  EXPECT_REFUSED("host host", 5, "more than one resource");
  EXPECT_REFUSED("pool(host, )", 11, "a value is missing");
  EXPECT_REFUSED("pool(host, limit=)", 17, "a value is missing");
  EXPECT_REFUSED("pool(host, limt=1)", 11,
                 "pool has no parameter limt; it has limit, segment, initial, reuse");
  EXPECT_REFUSED("pool(host, limit=1.5GiB)", 17, "1.5GiB is not a size");
  EXPECT_REFUSED("pool(host, 1, limit=2)", 20, "limit is given twice");
  EXPECT_REFUSED("pool(host, 1, 2, 3, passed_only, 5)", 33, "takes no further value");
  EXPECT_REFUSED("pool(host, reuse=never)", 17, "reuse is one of passed_only, wait_rather_than_fail");
  EXPECT_REFUSED("pool(log(host))", 5, "log needs file");
  EXPECT_REFUSED("pool(moon)", 5, "no device \"moon\"");
  EXPECT_REFUSED("pool(host.device)", 5, "host:0 has no memory of kind \"device\"; it has pageable, shared");
  EXPECT_REFUSED(std::string(5000, 'x'), 0, "longer than any resource");
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "pool(";
  EXPECT_REFUSED(deep, 65 * 5, "more layers");
  EXPECT_TRUE(refusal("pool(moon)").message.ends_with("\n  pool(moon)\n       ^"));
  EXPECT_TRUE(refusal(std::string("µ\n(\0", 5)).message.ends_with("\n  µ?(?\n   ^"))
      << "one line, whatever is in it";
}

}  // namespace
}  // namespace weir::replay
