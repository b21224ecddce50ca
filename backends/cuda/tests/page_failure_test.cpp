// SPDX-License-Identifier: Apache-2.0
// The driver refuses what is done with pages: a pool goes on, and nothing is left behind.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "expect.hpp"
#include "failures.hpp"
#include "weir/pool.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/stream.hpp"

namespace weir::cuda_test {
namespace {

// It may still be in use where it is mapped. Its addresses serve others once the driver has unmapped it.
TEST_F(Failures, APageThatIsNotUnmappedKeepsItsAddresses) {
  constexpr std::size_t page = std::size_t{2} << 20;
  const Stream stream(gpu());
  const auto use = [&](const PoolPtr& pool) {
    Buffer next = pool->allocate(page, stream);
    next.fill(std::uint8_t{3}, stream);
    EXPECT_BYTES(test::read(next, stream), test::repeat(page, 3));
    next.close();
    stream.synchronize();
  };
  const auto before = free_memory();
  const auto refuse = [&] { fail_next("cuMemUnmap", CUDA_ERROR_INVALID_VALUE); };
  const auto expect_report = [] {
    const auto reports = test::take_reports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_NE(reports[0].where.find("cuMemUnmap"), std::string::npos) << reports[0].where;
  };
  for (const bool also_at_the_end : {false, true}) {
    {
      const auto pool = make_pool(cuda::make_vmm_resource(gpu()), {.segment_bytes = page});
      use(pool);
      refuse();
      (void)pool->trim(0);
      expect_report();
      EXPECT_EQ(pool->stats().reserved, 0U);
      refuse();
      EXPECT_ERROR(pool->allocate(page, stream), Errc::invalid_argument, "cuMemUnmap");
      use(pool);
      if (also_at_the_end) refuse();
    }
    if (also_at_the_end) expect_report();
    EXPECT_EQ(free_memory(), before - (also_at_the_end ? page : 0)) << "what is mapped stays, and nothing else";
  }
}

TEST_F(Failures, APageThatIsNotUnmappedGivesWayToThoseThatNeedAPartOfIt) {
  constexpr std::size_t page = std::size_t{2} << 20;
  const auto before = live();
  {
    const auto addresses = spi::Ref<spi::PagedSegment>::adopt(
        gpu().state().backend->segments->reserve_addresses(gpu().state(), MemoryKind::vmm, 8 * page, false));
    for (const std::size_t at : {3U, 2U, 4U, 1U, 5U}) {
      Shortage shortage;
      ASSERT_TRUE(addresses->add_page(2 * page, 3 * page, shortage));
      fail_next("cuMemUnmap", CUDA_ERROR_INVALID_VALUE);
      addresses->end_page(2 * page);
      EXPECT_EQ(test::take_reports().size(), 1U);
      const std::size_t pages = at == 1 ? 2 : 1;
      ASSERT_TRUE(addresses->add_page(at * page, pages * page, shortage)) << at;
      addresses->end_page(at * page);
    }
  }
  EXPECT_EQ(live(), before);
}

// Each call of a growth that takes new pages, and of one that moves idle ones, by its number.
TEST_F(Failures, APagedPoolGoesOnAfterARefusedPage) {
  constexpr std::size_t page = std::size_t{2} << 20;
  std::size_t refusals = 0, served = 0;
  test::await_releases();     // of earlier tests, which would be counted here
  const Stream first(gpu());  // makes the context in which free memory is asked for
  for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap"}) {
    for (const CUresult code : {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY}) {
      for (int nth = 1; nth <= 4; ++nth) {
        SCOPED_TRACE(call + (" number " + std::to_string(nth)) + " returns " + std::to_string(code));
        const auto before = free_memory();
        {
          const Stream stream(gpu());
          const auto pool = make_pool(cuda::make_vmm_resource(gpu()), {.segment_bytes = page, .patience = {}});
          std::vector<Buffer> kept;
          for (std::uint8_t i = 0; i < 6; ++i) {
            kept.push_back(pool->allocate(page, stream));
            kept.back().fill(i, stream);
          }
          for (const std::size_t i : {0U, 2U, 4U}) kept[i].close();
          stream.synchronize();
          fail_next(call, nth, code);
          try {
            Buffer large = pool->allocate(5 * page + 512, stream);
            large.fill(std::uint8_t{7}, stream);
            ++served;
          } catch (const std::exception& error) {
            ++refusals;
            EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
          }
          forget();
          (void)test::take_reports();
          for (const std::size_t pages : {5U, 1U, 9U}) {
            Buffer again = pool->allocate(pages * page + 512, stream);
            again.fill(std::uint8_t{8}, stream);
            EXPECT_BYTES(test::read(again, stream), test::repeat(again.size(), 8));
          }
          for (const std::size_t i : {1U, 3U, 5U}) {
            EXPECT_BYTES(test::read(kept[i], stream), test::repeat(page, static_cast<std::uint8_t>(i)));
          }
          stream.synchronize();
          kept.clear();
          (void)pool->trim(0);
          EXPECT_EQ(pool->stats().reserved, 0U);
        }
        EXPECT_EQ(free_memory(), before) << "a page is left behind";
      }
    }
  }
  EXPECT_GE(refusals, 16U);
  EXPECT_GT(served, 0U) << "a call that is made seldom is not reached, or another way is found";
}

}  // namespace
}  // namespace weir::cuda_test
