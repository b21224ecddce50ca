// SPDX-License-Identifier: Apache-2.0
// The bound holds at every moment, whatever upstream does meanwhile.

#include "weir/adaptors/limiting.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "expect.hpp"
#include "scripted.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

class Limits : public testing::Test {
 protected:
  std::shared_ptr<Scripted> upstream = std::make_shared<Scripted>();
  LimitingPtr limited = make_limiting(upstream, 1000);
  Stream stream{host_device()};
};

TEST_F(Limits, IsNamedAfterItsUpstream) {
  EXPECT_EQ(limited->name(), "limit(scripted)");
  EXPECT_EQ(limited->upstream(), upstream);
  EXPECT_EQ(limited->limit(), 1000U);
  EXPECT_ERROR(make_limiting(nullptr, 1), Errc::invalid_argument, "upstream");
}

TEST_F(Limits, ExactlyTheLimitFits) {
  Buffer most = limited->allocate(999, stream);
  Buffer rest = limited->allocate(1, stream);
  EXPECT_FALSE(limited->try_allocate(1, stream).has_value());
  EXPECT_TRUE(limited->try_allocate(0, stream).has_value()) << "takes no memory";
  rest.close();
  EXPECT_TRUE(limited->try_allocate(1, stream).has_value());
  EXPECT_EQ(limited->stats().in_use, 999U);
}

TEST_F(Limits, WhatDoesNotFitNamesTheLimitAndUpstreamIsNotAsked) {
  const Buffer some = limited->allocate(600, stream);
  try {
    (void)limited->allocate(401, stream);
    FAIL() << "beyond the limit";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().requested, 401U);
    EXPECT_EQ(error.shortage().limit, 1000U);
    EXPECT_EQ(error.shortage().in_use, 600U);
    EXPECT_EQ(error.shortage().reserved, upstream->stats().reserved);
    EXPECT_EQ(error.shortage().resource, "limit(scripted)");
    EXPECT_NE(std::string(error.what()).find("limit 1 000 bytes"), std::string::npos) << error.what();
  }
  EXPECT_EQ(upstream->asked().size(), 1U);
}

TEST_F(Limits, WhatUpstreamRefusesIsNotCounted) {
  upstream->follow([](const auto& asked) { return asked.bytes != 700; });
  try {
    (void)limited->allocate(700, stream);
    FAIL() << "upstream refused";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().call, "script");
    EXPECT_EQ(error.shortage().in_use, 0U);
  }
  EXPECT_TRUE(limited->try_allocate(1000, stream).has_value());
}

TEST_F(Limits, WhatUpstreamThrowsAtIsNotCounted) {
  upstream->follow([](const auto& asked) {
    if (asked.bytes == 700) throw std::runtime_error("driver");
    return true;
  });
  EXPECT_THROW((void)limited->allocate(700, stream), std::runtime_error);
  EXPECT_TRUE(limited->try_allocate(1000, stream).has_value());
}

TEST_F(Limits, ARequestCountsWhileUpstreamIsAsked) {
  bool asked = false;
  upstream->follow([&](const auto& request) {
    if (request.bytes == 700) {
      asked = true;
      EXPECT_FALSE(limited->try_allocate(301, stream).has_value());
      EXPECT_TRUE(limited->try_allocate(300, stream).has_value());
      EXPECT_EQ(limited->stats().in_use, 0U) << "nobody has it yet";
    }
    return true;
  });
  EXPECT_TRUE(limited->try_allocate(700, stream).has_value());
  EXPECT_TRUE(asked);
}

TEST_F(Limits, ALowerLimitLeavesBuffersAlone) {
  Buffer first = limited->allocate(500, stream), second = limited->allocate(400, stream);
  limited->set_limit(450);
  EXPECT_FALSE(limited->try_allocate(1, stream).has_value());
  first.close();
  EXPECT_FALSE(limited->try_allocate(51, stream).has_value());
  EXPECT_TRUE(limited->try_allocate(50, stream).has_value());
  limited->set_limit(SIZE_MAX);
  EXPECT_TRUE(limited->try_allocate(5000, stream).has_value());
}

TEST_F(Limits, TwoOverOneUpstreamCountTheirOwn) {
  const auto other = make_limiting(upstream, 100);
  const Buffer a = limited->allocate(1000, stream), b = other->allocate(100, stream);
  EXPECT_EQ(limited->stats().in_use, 1000U);
  EXPECT_EQ(other->stats().in_use, 100U);
  EXPECT_EQ(other->stats().reserved, upstream->stats().reserved) << "upstream's, of both";
}

TEST_F(Limits, EightThreadsNeverHaveMore) {
  std::atomic<std::size_t> live{0}, served{0}, refused{0};
  std::vector<Thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Stream own(host_device());
      for (std::size_t i = 0; i < 2000; ++i) {
        const std::size_t bytes = 1 + (i * 37 + t * 101) % 400;
        auto buffer = limited->try_allocate(bytes, own);
        if (!buffer) {
          ++refused;
          continue;
        }
        ++served;
        EXPECT_LE(live += bytes, 1000U);
        live -= bytes;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(served + refused, 16000U);
  EXPECT_EQ(limited->stats().allocations, served);
  EXPECT_LE(limited->stats().peak_in_use, 1000U);
  EXPECT_EQ(limited->stats().in_use, 0U);
  EXPECT_TRUE(limited->try_allocate(1000, stream).has_value()) << "nothing is counted for ever";
}

}  // namespace
}  // namespace weir::test
