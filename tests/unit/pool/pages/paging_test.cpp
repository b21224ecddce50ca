// SPDX-License-Identifier: Apache-2.0
// A paged pool over pages of main memory: random programs whose bytes must stay, whatever is moved meanwhile and whatever
// upstream refuses.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/error.hpp"
#include "weir/pool.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::pool {
namespace {

constexpr std::size_t page = 64 << 10;

/// What upstream has, and when it refuses.
struct Upstream {
  std::map<std::size_t, std::size_t> pages;  // bytes by offset
  std::size_t bytes = 0;
  std::size_t most = ~std::size_t{0};
  std::size_t refused = 0;
  int calls_until_throw = -1;
  int moves = 0;

  void call() {
    if (calls_until_throw >= 0 && calls_until_throw-- == 0) throw Error(Errc::unsupported, "refused");
  }
  [[nodiscard]] bool overlaps(std::size_t offset, std::size_t size) const {
    const auto next = pages.lower_bound(offset);
    return (next != pages.end() && next->first < offset + size) ||
           (next != pages.begin() && std::prev(next)->first + std::prev(next)->second > offset);
  }
};

class MappedPages final : public spi::PagedSegment {
 public:
  MappedPages(Device on, std::size_t bytes, Upstream& upstream) : upstream_(upstream) {
    device = &on.state();
    kind = MemoryKind::pageable;
    size = bytes;
    host = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (host == MAP_FAILED) throw std::bad_alloc();
    page_bytes = page;
  }
  ~MappedPages() override {
    while (!upstream_.pages.empty()) end_page(upstream_.pages.begin()->first);
    munmap(host, size);
  }

  bool add_page(std::size_t offset, std::size_t bytes, Shortage& shortage) override {
    upstream_.call();
    check_place(offset, bytes);
    if (upstream_.bytes + bytes > upstream_.most) {
      ++upstream_.refused;
      shortage.call = "add_page";
      return false;
    }
    map(offset, bytes, PROT_READ | PROT_WRITE);
    upstream_.pages[offset] = bytes;
    upstream_.bytes += bytes;
    return true;
  }
  void move_page(std::size_t from, std::size_t to) override {
    upstream_.call();
    const auto bytes = upstream_.pages.at(from);
    check_place(to, bytes);
    if (mremap(host + from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, host + to) == MAP_FAILED) {
      throw std::runtime_error("mremap");
    }
    map(from, bytes, PROT_NONE);
    upstream_.pages.erase(from);
    upstream_.pages[to] = bytes;
    ++upstream_.moves;
  }
  void end_page(std::size_t offset) noexcept override {
    const auto bytes = upstream_.pages.at(offset);
    map(offset, bytes, PROT_NONE);
    upstream_.pages.erase(offset);
    upstream_.bytes -= bytes;
  }

 private:
  void check_place(std::size_t offset, std::size_t bytes) const {
    if (offset % page != 0 || bytes % page != 0 || bytes == 0 || offset + bytes > size) {
      throw std::logic_error("no place for a page");
    }
    if (upstream_.overlaps(offset, bytes)) throw std::logic_error("two pages at one place");
  }
  void map(std::size_t offset, std::size_t bytes, int access) const noexcept {
    (void)mmap(host + offset, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }

  Upstream& upstream_;
};

class PagedResource final : public MemoryResource {
 public:
  PagedResource(std::size_t addresses, Upstream& upstream)
      : MemoryResource(host_device(), "pages", {MemoryKind::pageable, true, false, false}),
        addresses_(addresses),
        upstream_(upstream) {}
  [[nodiscard]] ResourceStats stats() const override { return {}; }
  std::size_t trim(std::size_t) override { return 0; }

 private:
  spi::Block* do_allocate(const spi::Request&, Shortage&) override { throw std::logic_error("not by segments"); }
  spi::Block* do_reserve_addresses(std::size_t, const Stream& stream) override {
    auto* block = new spi::Block;
    block->segment = new MappedPages(device(), addresses_, upstream_);
    block->resource = this;
    block->stream = &stream.state();
    return block;
  }
  void do_deallocate(spi::Block& block) noexcept override {
    for (const auto& point : block.uses()) (void)point.stream->wait_for(point.value, std::chrono::nanoseconds{-1});
    block.segment->release();
    delete &block;
  }

  std::size_t addresses_;
  Upstream& upstream_;
};

class Paging : public testing::Test {
 protected:
  [[nodiscard]] PoolPtr make(const PoolOptions& options = {}, std::size_t addresses = std::size_t{1} << 30) {
    return make_pool(std::make_shared<PagedResource>(addresses, upstream), options);
  }
  static void mark(Buffer& buffer, unsigned char with) { std::memset(buffer.host_data(), with, buffer.size()); }
  static bool marked(const Buffer& buffer, unsigned char with) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(buffer.host_data());
    return bytes[0] == with && std::memcmp(bytes, bytes + 1, buffer.size() - 1) == 0;
  }

  Upstream upstream;
  Stream stream{host_device()};
};

// Wherever the last page ends in the table, it is seen.
TEST_F(Paging, EveryPageCanGoBack) {
  for (std::size_t pages = 1; pages < 700; pages += pages < 150 ? 1 : 23) {
    const auto pool = make();
    pool->allocate(pages * page, stream).close();
    EXPECT_EQ(pool->trim(0), pages * page);
    EXPECT_EQ(pool->stats().reserved, 0U) << pages;
    EXPECT_EQ(upstream.pages.size(), 0U) << pages;
  }
}

TEST_F(Paging, GrowsByWhatIsMissing) {
  const auto pool = make();
  Buffer small = pool->allocate(1000, stream);
  EXPECT_EQ(pool->stats().reserved, page);
  Buffer large = pool->allocate(3 * page, stream);
  EXPECT_EQ(pool->stats().reserved, 4 * page) << "one for small buffers";
  mark(large, 1);
  mark(small, 2);
  EXPECT_TRUE(marked(large, 1));
}

TEST_F(Paging, IdlePagesGoWhereTheyAreNeeded) {
  const auto pool = make();
  std::vector<Buffer> buffers;
  for (unsigned char i = 0; i < 8; ++i) mark(buffers.emplace_back(pool->allocate(page, stream)), i);
  for (std::size_t i = 0; i < 8; i += 2) buffers[i].close();
  Buffer large = pool->allocate(4 * page, stream);
  mark(large, 9);
  EXPECT_EQ(pool->stats().reserved, 8 * page);
  EXPECT_EQ(pool->pool_stats().moved, 4U);
  for (unsigned char i = 1; i < 8; i += 2) EXPECT_TRUE(marked(buffers[i], i));
}

// No memory is taken for that, also where a limit allows none.
TEST_F(Paging, ManyIdlePagesBecomeFewNewOnes) {
  for (const std::size_t limit : {~std::size_t{0}, 1200 * page}) {
    SCOPED_TRACE(limit);
    const auto pool = make({.limit = limit});
    std::vector<Buffer> buffers;
    for (unsigned i = 0; i < 1200; ++i) mark(buffers.emplace_back(pool->allocate(page, stream)), static_cast<unsigned char>(i));
    for (std::size_t i = 0; i < 1200; i += 2) buffers[i].close();
    Buffer large = pool->allocate(600 * page, stream);
    mark(large, 255);
    EXPECT_EQ(pool->stats().reserved, 1200 * page);
    EXPECT_EQ(upstream.bytes, 1200 * page);
    EXPECT_LT(upstream.pages.size(), 720U);
    EXPECT_EQ(pool->pool_stats().segments, upstream.pages.size());
    EXPECT_EQ(pool->pool_stats().moved, 24U);
    EXPECT_EQ(pool->pool_stats().given_back, 576U);
    for (std::size_t i = 1; i < 1200; i += 2) ASSERT_TRUE(marked(buffers[i], static_cast<unsigned char>(i)));
  }
}

// Each that moves is some calls of the driver, whatever its size. Most of what is idle here are the smallest ones.
TEST_F(Paging, TheLargestIdlePagesMove) {
  const auto pool = make();
  std::vector<Buffer> idle, live;
  for (const int last : {135, 270}) {
    while (idle.size() < static_cast<std::size_t>(last)) idle.push_back(pool->allocate(page, stream));
    live.push_back(pool->allocate(page, stream));
  }
  idle.push_back(pool->allocate(126 * page, stream));
  ASSERT_EQ(upstream.pages.rbegin()->second, 2 * page);
  live.push_back(pool->allocate(page, stream));
  idle.push_back(pool->allocate(100 * page, stream));
  const auto reserved = pool->stats().reserved;
  idle.clear();
  Buffer large = pool->allocate(140 * page, stream);
  EXPECT_EQ(pool->stats().reserved, reserved);
  EXPECT_EQ(pool->pool_stats().moved, 20U) << "for what is missing behind the last hundred";
  EXPECT_EQ(pool->pool_stats().given_back, 0U);
}

// Although hundreds of small buffers were closed in them: nothing is new.
TEST_F(Paging, PagesOfManySmallBuffersMove) {
  const auto pool = make();
  std::vector<Buffer> buffers;
  while (buffers.size() < 300) buffers.push_back(pool->allocate(512, stream));
  const auto reserved = pool->stats().reserved;
  buffers.clear();
  Buffer large = pool->allocate(reserved, stream);
  EXPECT_EQ(pool->stats().reserved, reserved);
}

TEST_F(Paging, BareAddressesAreUsedAgain) {
  const auto pool = make({}, 64 * page);  // more would be needed otherwise
  std::vector<Buffer> buffers;
  for (int round = 0; round < 50; ++round) {
    buffers.clear();
    for (int i = 0; i < 8; ++i) buffers.push_back(pool->allocate(page * (1 + static_cast<unsigned>(i + round) % 3), stream));
    for (std::size_t i = 0; i < 8; i += 2) buffers[i].close();
    buffers.push_back(pool->allocate(7 * page, stream));
  }
  EXPECT_LE(pool->stats().reserved, 24 * page);
}

TEST_F(Paging, LargeRequestsGetLargePages) {
  const auto pool = make();
  Buffer large = pool->allocate(1000 * page, stream);
  EXPECT_LE(upstream.pages.size(), 128U);
  EXPECT_EQ(upstream.bytes, 1000 * page);
}

TEST_F(Paging, TrimGivesPagesBack) {
  const auto pool = make({.initial_bytes = 8 * page});
  EXPECT_EQ(upstream.bytes, 8 * page);
  Buffer buffer = pool->allocate(page, stream);
  EXPECT_EQ(pool->trim(3 * page), 4 * page);
  EXPECT_EQ(upstream.bytes, 4 * page);
  EXPECT_EQ(pool->trim(0), 3 * page);
  EXPECT_EQ(pool->stats().reserved, page);
}

TEST_F(Paging, ThereMayBeTooFewAddresses) {
  const auto pool = make({}, 8 * page);
  EXPECT_FALSE(pool->try_allocate(7 * page, stream).has_value());
  Buffer large = pool->allocate(6 * page, stream);
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value());
  Buffer small = pool->allocate(page / 2, stream);
  Buffer smaller = pool->allocate(page / 2 - 256, stream);
}

TEST_F(Paging, SmallBuffersKeepNoLargeMemory) {
  const auto pool = make();
  std::vector<Buffer> small, large;
  for (int i = 0; i < 8; ++i) {
    large.push_back(pool->allocate(page, stream));
    small.push_back(pool->allocate(256, stream));
  }
  EXPECT_EQ(pool->stats().reserved, 9 * page);
  large.clear();
  large.push_back(pool->allocate(8 * page, stream));
  EXPECT_EQ(pool->stats().reserved, 9 * page);
}

TEST_F(Paging, SmallRequestsGetLargeMemoryBeforeTheyFail) {
  const auto pool = make({.initial_bytes = 256 * page, .limit = 256 * page});  // by pages that fit no small gap
  std::vector<Buffer> small;
  for (int i = 0; i < 100; ++i) small.push_back(pool->allocate(page / 2, stream));
  EXPECT_EQ(pool->stats().reserved, 256 * page);
}

TEST_F(Paging, LargeRequestsGetSmallMemoryBeforeTheyFail) {
  const auto pool = make({.limit = page, .patience = {}});
  const Buffer small = pool->allocate(256, stream);
  Buffer large = pool->allocate(page / 8 * 5, stream);
  EXPECT_EQ(pool->stats().reserved, page);
}

// A quarter of the addresses is for them.
TEST_F(Paging, SmallRequestsGetLargeAddressesBeforeTheyFail) {
  const auto pool = make({.patience = {}}, 8 * page);
  std::vector<Buffer> small;
  for (int i = 0; i < 16; ++i) small.push_back(pool->allocate(page / 2, stream));
  EXPECT_EQ(pool->stats().reserved, 8 * page);
  EXPECT_FALSE(pool->try_allocate(page / 2, stream).has_value());
}

// Each lies beside a live buffer that has a part of its page, and is too large for what is missing besides one.
TEST_F(Paging, IdlePagesThatFitNowhereGoBackBeforeARequestFails) {
  constexpr std::size_t all = 1024 * page, each = 24 * page;
  for (const bool limited : {true, false}) {
    SCOPED_TRACE(limited ? "limit" : "upstream");
    upstream = {};
    if (!limited) upstream.most = all;
    const auto pool = make({.limit = limited ? all : ~std::size_t{0}, .patience = {}});
    pool->allocate(all, stream).close();
    ASSERT_EQ(upstream.pages.begin()->second, 16 * page);
    std::vector<Buffer> buffers;
    for (unsigned char i = 0; i < all / each; ++i) mark(buffers.emplace_back(pool->allocate(each, stream)), i);
    for (std::size_t i = 0; i < buffers.size(); i += 2) buffers[i].close();
    Buffer large = pool->allocate(40 * page, stream);
    mark(large, 255);
    EXPECT_LE(upstream.bytes, all);
    EXPECT_EQ(pool->stats().reserved, upstream.bytes);
    EXPECT_EQ(pool->pool_stats().segments, upstream.pages.size());
    for (unsigned char i = 1; i < buffers.size(); i += 2) EXPECT_TRUE(marked(buffers[i], i));
  }
}

// Pages are taken out of the small ranges, so a request finds the large one whole.
TEST_F(Paging, LargeIdleRangesStayWhole) {
  const auto pool = make();
  std::vector<Buffer> idle, live;
  for (int i = 0; i < 16; ++i) (i % 2 == 0 ? idle : live).push_back(pool->allocate(page, stream));
  idle.push_back(pool->allocate(6 * page, stream));
  live.push_back(pool->allocate(page, stream));
  idle.clear();
  live.push_back(pool->allocate(8 * page, stream));
  EXPECT_EQ(pool->pool_stats().moved, 8U);
  live.push_back(pool->allocate(6 * page, stream));
  EXPECT_EQ(pool->pool_stats().moved, 8U);
  EXPECT_EQ(pool->stats().reserved, 23 * page);
}

// The page at the beginning of all addresses moves, and not the one between two live buffers.
TEST_F(Paging, NoHoleIsMadeWhereThereIsAnother) {
  for (const bool edge_first : {true, false}) {
    SCOPED_TRACE(edge_first);
    const auto pool = make();
    std::vector<Buffer> buffers;
    for (int i = 0; i < 7; ++i) buffers.push_back(pool->allocate(page, stream));
    const auto between = buffers[3].host_data();
    buffers[6].close();
    buffers[edge_first ? 0 : 3].close();
    buffers[edge_first ? 3 : 0].close();
    Buffer two = pool->allocate(2 * page, stream);
    EXPECT_EQ(pool->pool_stats().moved, 1U);
    EXPECT_EQ(pool->allocate(page, stream).host_data(), between);
  }
}

/// A program whose sizes never repeat: random ones of up to 32 pages, so many live at a time that 1 000 pages are.
class RestlessProgram {
 public:
  RestlessProgram(Pool& pool, const Stream& stream) : pool_(pool), stream_(stream) {}
  /// Allocate so many buffers. Return how many pages were moved for them.
  std::uint64_t run(int allocations) {
    const auto before = pool_.pool_stats().moved;
    for (int i = 0; i < allocations; ++i) {
      const std::size_t bytes = 1 + random_() % (32 * page);
      while (live_bytes_ + bytes > 1000 * page) {
        std::swap(live_[random_() % live_.size()], live_.back());
        live_bytes_ -= live_.back().size();
        live_.pop_back();
      }
      live_.push_back(pool_.allocate(bytes, stream_));
      live_bytes_ += bytes;
    }
    return pool_.pool_stats().moved - before;
  }

 private:
  Pool& pool_;
  const Stream& stream_;
  std::mt19937 random_{1};
  std::vector<Buffer> live_;
  std::size_t live_bytes_ = 0;
};

TEST_F(Paging, ARestlessProgramGetsMoreMemory) {
  const auto pool = make();
  RestlessProgram program(*pool, stream);
  EXPECT_GT(program.run(1000), 500U) << "nothing is gained by the rest of this test";
  program.run(2000);
  EXPECT_LT(program.run(2000), 250U);
  EXPECT_LT(pool->stats().reserved, 1300 * page);
}

TEST_F(Paging, ARestlessProgramWithoutMoreMemoryGoesOn) {
  for (const bool limited : {false, true}) {
    SCOPED_TRACE(limited ? "limit" : "upstream");
    upstream = {};
    if (!limited) upstream.most = 1060 * page;
    const auto pool = make({.limit = limited ? 1060 * page : ~std::size_t{0}});
    RestlessProgram program(*pool, stream);
    EXPECT_GT(program.run(3000), 5000U);
    EXPECT_LE(upstream.bytes, 1060 * page);
    EXPECT_LT(upstream.refused, 100U) << "it is asked for more each time";
  }
}

// Closes and allocations of all sizes; upstream runs out of memory, or fails at some call. Nothing that lives is touched,
// and the pool counts what upstream has.
TEST_F(Paging, RandomProgramsKeepTheirBytes) {
  int moves = 0, refusals = 0, throws = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t end) { return random() % end; };
    upstream = {};
    upstream.most = seed % 3 == 0 ? 24 * page : ~std::size_t{0};
    {
      const auto pool = make({.limit = seed % 4 == 0 ? 20 * page : ~std::size_t{0}}, 512 * page);
      const Stream second(host_device());
      std::vector<std::pair<Buffer, unsigned char>> live;
      for (int step = 0; step < 400; ++step) {
        if (below(5) < 2 && !live.empty()) {
          const auto which = below(static_cast<std::uint32_t>(live.size()));
          ASSERT_TRUE(marked(live[which].first, live[which].second)) << "step " << step;
          std::swap(live[which], live.back());
          live.pop_back();
          continue;
        }
        if (live.size() > (seed % 5 == 0 ? 90 : 30)) live.erase(live.begin(), live.begin() + 15);
        const std::size_t bytes = 1 + below(std::uint32_t{1} << below(seed % 5 == 0 ? 24 : 21));
        upstream.calls_until_throw = below(20) == 0 ? static_cast<int>(below(4)) : -1;
        ASSERT_EQ(pool->pool_stats().segments, upstream.pages.size());
        try {
          auto buffer = pool->try_allocate(bytes, below(2) ? stream : second, below(8) ? 256 : 4096);
          if (!buffer) {
            ++refusals;
          } else {
            const auto sign = static_cast<unsigned char>(step);
            mark(*buffer, sign);
            live.emplace_back(std::move(*buffer), sign);
          }
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), Errc::unsupported);
          ++throws;
        }
        upstream.calls_until_throw = -1;
        ASSERT_EQ(pool->stats().reserved, upstream.bytes) << "step " << step;
        if (below(50) == 0) pool->trim(below(20) * page);
      }
      for (const auto& [buffer, sign] : live) ASSERT_TRUE(marked(buffer, sign));
      live.clear();
      pool->trim(0);
      EXPECT_EQ(pool->stats().reserved, 0U);
      moves += upstream.moves;
    }
    EXPECT_EQ(upstream.bytes, 0U);
  }
  EXPECT_GT(moves, 100);
  EXPECT_GT(refusals, 100);
  EXPECT_GT(throws, 20);
}

}  // namespace
}  // namespace weir::pool
