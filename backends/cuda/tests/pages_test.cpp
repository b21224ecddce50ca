// SPDX-License-Identifier: Apache-2.0
// Pages of reserved addresses, given out and put together again within one process.
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/resources.hpp"

namespace weir::cuda_test {
namespace {

using test::pattern;
using Segments = std::vector<spi::Ref<spi::Segment>>;

class SharedPages : public CudaTest {
 protected:
  static constexpr std::size_t most_pages = 96;
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const KindInfo* vmm = gpu().find(MemoryKind::vmm);
    if (!vmm || !vmm->exportable) GTEST_SKIP() << "this device exports no memory";
    unit = vmm->granularity;
    stream.emplace(gpu());
    addresses = reserve(true);
  }

  static const spi::SegmentOps& ops() { return *gpu().state().backend->segments; }
  [[nodiscard]] spi::Ref<spi::PagedSegment> reserve(bool exportable) const {
    return spi::Ref<spi::PagedSegment>::adopt(
        ops().reserve_addresses(gpu().state(), MemoryKind::vmm, most_pages * unit, exportable));
  }
  /// Put a page of so many units at a unit.
  void add(std::size_t at, std::size_t units) {
    Shortage shortage;
    ASSERT_TRUE(addresses->add_page(at * unit, units * unit, shortage)) << shortage.call;
  }
  [[nodiscard]] Buffer range(std::size_t offset, std::size_t bytes) const {
    return spi::make_adopted_buffer(spi::Ref<spi::Segment>::retain(addresses.get()), offset, bytes, *stream);
  }
  static Segments open(const Segments& pages, bool read_only = false) {
    Segments opened;
    for (const auto& page : pages) {
      spi::StrangerFd file(ops().export_handle(*page).fd);
      opened.push_back(spi::Ref<spi::Segment>::adopt(ops().import_handle(
          gpu().state(),
          {.kind = ops().exports, .fd = file, .size = page->size, .memory_kind = page->kind, .read_only = read_only})));
    }
    return opened;
  }
  static spi::Ref<spi::Segment> join(const Segments& pages) {
    std::vector<spi::Segment*> each;
    for (const auto& page : pages) each.push_back(page.get());
    return spi::Ref<spi::Segment>::adopt(ops().join(gpu().state(), each));
  }

  std::size_t unit = 0;
  spi::Ref<spi::PagedSegment> addresses;
  std::optional<Stream> stream;  // where there is a device
};

TEST_F(SharedPages, AreTheSameMemoryPutTogether) {
  for (const auto& [at, units] : {std::pair<std::size_t, std::size_t>{1, 1}, {2, 2}, {4, 1}, {8, 1}}) add(at, units);
  const std::size_t offset = 2 * unit - 300,
                    bytes = 2 * unit + 1000;  // the end of a page, a page, and some of the next
  Buffer original = range(offset, bytes);
  test::write(original, pattern(bytes, 3), *stream);
  stream->synchronize();
  const auto held = addresses->hold(offset, bytes);
  ASSERT_EQ(held.pages.size(), 3U);
  EXPECT_EQ(held.offset, unit - 300);
  const auto joined = join(open(held.pages));
  EXPECT_EQ(joined->size, 4 * unit);
  EXPECT_TRUE(joined->imported);
  EXPECT_FALSE(joined->read_only);
  Buffer again = spi::make_adopted_buffer(joined, held.offset, bytes, *stream);
  EXPECT_BYTES(test::read(again, *stream), pattern(bytes, 3));
  again.fill(std::byte{5}, 290, 20, *stream);  // in two pages
  EXPECT_EQ(test::read(original, *stream).at(300), std::byte{5});
}

TEST_F(SharedPages, AreThoseOfTheRange) {
  for (const auto& [at, units] : {std::pair<std::size_t, std::size_t>{1, 1}, {2, 2}, {4, 1}}) add(at, units);
  const auto sizes = [&](std::size_t offset, std::size_t bytes) {
    std::vector<std::size_t> found;
    for (const auto& page : addresses->hold(offset, bytes).pages) found.push_back(page->size / unit);
    return found;
  };
  EXPECT_EQ(sizes(unit, 1), std::vector<std::size_t>{1});
  EXPECT_EQ(sizes(2 * unit - 1, 1), std::vector<std::size_t>{1});
  EXPECT_EQ(sizes(2 * unit, 2 * unit), std::vector<std::size_t>{2});
  EXPECT_EQ(sizes(2 * unit - 1, 2), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(sizes(unit, 4 * unit), (std::vector<std::size_t>{1, 2, 1}));
  EXPECT_EQ(addresses->hold(3 * unit + 5, 1).offset, unit + 5);
}

TEST_F(SharedPages, OutliveTheAddressesAndTheOpenedPages) {
  add(0, 1);
  add(1, 1);
  Buffer original = range(0, 2 * unit);
  test::write(original, pattern(2 * unit, 4), *stream);
  stream->synchronize();
  auto opened = open(addresses->hold(0, 2 * unit).pages);
  const auto joined = join(opened);
  opened.clear();
  original.close();
  addresses = {};
  EXPECT_BYTES(test::read(spi::make_adopted_buffer(joined, 0, 2 * unit, *stream), *stream), pattern(2 * unit, 4));
}

TEST_F(SharedPages, KeepTheirIdentityWhenTheyMove) {
  add(0, 1);
  add(1, 1);
  const auto before = addresses->hold(0, unit).pages.front();
  const auto id = before->id();
  addresses->move_page(0, 5 * unit);
  const auto after = addresses->hold(5 * unit, unit).pages.front();
  EXPECT_EQ(after.get(), before.get());
  EXPECT_EQ(after->id(), id);
  EXPECT_NE(addresses->hold(unit, unit).pages.front()->id(), id);
}

TEST_F(SharedPages, TheSameOnesAreSharedAsTheSameSegment) {
  for (std::size_t i = 0; i < 4; ++i) add(i, 1);
  const auto two = addresses->share(5, unit), three = addresses->share(6, 2 * unit);
  EXPECT_EQ(two.offset, 5U);
  EXPECT_EQ(two.segment->size, 2 * unit);
  ASSERT_EQ(two.segment->parts().size(), 2U);
  EXPECT_EQ(three.segment->parts().size(), 3U);
  EXPECT_EQ(two.segment->parts().front().get(), three.segment->parts().front().get());
  EXPECT_TRUE(two.segment->exportable);
  EXPECT_EQ(addresses->share(unit - 1, 2).segment.get(), two.segment.get());
  EXPECT_EQ(addresses->share(unit - 1, 2).offset, unit - 1);
  EXPECT_EQ(addresses->share(unit, unit).segment.get(), two.segment->parts().back().get()) << "one page alone";
  EXPECT_EQ(addresses->find_shared(*three.segment), 0U);
  const auto last = addresses->share(2 * unit, 1).segment;
  EXPECT_EQ(addresses->find_shared(*last), 2 * unit);
  addresses->forget_shared(2 * unit);
  EXPECT_EQ(addresses->find_shared(*last), std::nullopt);
  EXPECT_EQ(addresses->find_shared(*three.segment), std::nullopt);
  EXPECT_EQ(addresses->find_shared(*two.segment), 0U);
  EXPECT_EQ(addresses->share(5, unit).segment.get(), two.segment.get());
  EXPECT_NE(addresses->share(6, 2 * unit).segment.get(), three.segment.get());
}

TEST_F(SharedPages, AreForgottenWhenThereAreManyOthers) {
  constexpr std::size_t count = 92;  // 4 186 ranges of two pages or more
  for (std::size_t i = 0; i < count; ++i) add(i, 1);
  const auto id = addresses->share(0, 2 * unit).segment->id();
  for (std::size_t first = 0; first < count; ++first) {
    for (std::size_t last = first + 1; last < count; ++last)
      (void)addresses->share(first * unit, (last - first + 1) * unit);
  }
  EXPECT_NE(addresses->share(0, 2 * unit).segment->id(), id);
  const auto newest = addresses->share((count - 2) * unit, 2 * unit).segment;
  EXPECT_EQ(addresses->share((count - 2) * unit, 2 * unit).segment.get(), newest.get());
}

TEST_F(SharedPages, CanBeReadOnly) {
  add(0, 1);
  add(1, 1);
  const auto joined = join(open(addresses->hold(0, 2 * unit).pages, true));
  EXPECT_TRUE(joined->read_only);
  const CUmemLocation here{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  for (const std::size_t page : {std::size_t{0}, unit}) {
    unsigned long long flags = 0;
    EXPECT_CU(api().MemGetAccess(&flags, &here, joined->address + page));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
  }
}

TEST_F(SharedPages, AreExportableOnlyWhereThatWasAskedFor) {
  addresses = reserve(false);
  add(0, 1);
  EXPECT_ERROR(ops().export_handle(*addresses->hold(0, 1).pages.front()), Errc::unsupported, "not made to be shared");
}

// A stranger may name one page as often as it likes.
TEST_F(SharedPages, AreNoMoreThanTheDeviceHas) {
  add(0, 1);
  const auto opened = open(addresses->hold(0, unit).pages);
  const std::size_t total = gpu().total_memory();
  const Segments many(total / unit + 1, opened.front());
  EXPECT_ERROR(join(many), Errc::corrupt_descriptor, std::to_string(total));
}

// Whatever call fails, what was mapped before is unmapped, and the same pages can be joined again.
TEST_F(SharedPages, ThatCannotBeJoinedAreLeftAlone) {
  if (!test::find_in_model("fake_cuda_fail")) GTEST_SKIP() << "real drivers refuse nothing on demand";
  const auto fail = reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"));
  for (std::size_t i = 0; i < 3; ++i) add(i, 1);
  const auto opened = open(addresses->hold(0, 3 * unit).pages);
  const auto files = test::open_fds();
  for (const char* call : {"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    for (const int nth : {1, 2, 3}) {
      if (nth > 1 && std::string_view(call) == "cuMemAddressReserve") continue;
      fail(call, nth, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_ERROR((void)join(opened), Errc::out_of_memory, call);
    }
  }
  fail("", 0, 0);
  EXPECT_FDS(files);
  EXPECT_EQ(join(opened)->size, 3 * unit);
}

}  // namespace
}  // namespace weir::cuda_test
