// SPDX-License-Identifier: Apache-2.0
// What it costs the driver to open a set of a holder: a few calls for each segment, and none for a tensor.
#include "weir/held_set.hpp"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "settle.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "weir/holder.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

const std::chrono::seconds limit = test::answer_limit();

class CudaHeldSets : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    calls_ = reinterpret_cast<std::size_t (*)(const char*)>(test::find_in_model("fake_cuda_calls"));
    if (!calls_) GTEST_SKIP() << "real drivers do not count their calls";
    test::settle_files();
    (void)test::open_fds();  // now the leases of earlier tests have ended, and their memory is given back
    stream_ = Stream(gpu());
    std::filesystem::create_directory(folder_);
    holder_.emplace(path_);
    thread_.emplace([this] { holder_->run(); });
    writer_.emplace(path_, "weights");
    reader_.emplace(path_, "weights");
  }
  void TearDown() override {
    reader_.reset();
    writer_.reset();
    if (holder_) holder_->stop();
    thread_.reset();
    holder_.reset();
    std::filesystem::remove_all(folder_);
  }
  struct Calls {
    std::size_t imports, maps, accesses, events;
    bool operator==(const Calls&) const = default;
  };
  /// Open the next epoch, and say what calls that took.
  std::pair<ipc::HeldSet, Calls> open() {
    const auto now = [this] {
      return Calls{calls_("cuMemImportFromShareableHandle"), calls_("cuMemMap"), calls_("cuMemSetAccess"),
                   calls_("cuEventRecord")};
    };
    const Calls before = now();
    ipc::HeldSet set = reader_->open(stream_, limit, epoch_);
    epoch_ = set.epoch;
    const Calls after = now();
    return {std::move(set), Calls{after.imports - before.imports, after.maps - before.maps,
                                  after.accesses - before.accesses, after.events - before.events}};
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("weir-cuda-" + std::to_string(::getpid()));
  const std::string path_ = folder_ / "holder";
  std::size_t (*calls_)(const char*) = nullptr;
  Stream stream_{host_device()};  // until there is one of the device
  std::optional<ipc::Holder> holder_;
  std::optional<test::Thread> thread_;
  std::optional<ipc::SetWriter> writer_;
  std::optional<ipc::SetReader> reader_;
  std::uint64_t epoch_ = 0;
};

TEST_F(CudaHeldSets, OpeningCostsTheDriverOneImportForEachSegment) {
  const ResourcePtr resource = cuda::make_vmm_resource(gpu(), {.exportable = true});
  constexpr std::int64_t segments = 3, tensors = 10000, size = 256;
  for (std::int64_t i = 0; i < segments; ++i) {
    Buffer all = resource->allocate(tensors * size, stream_);
    all.fill(static_cast<std::uint8_t>(i), stream_);
    for (std::int64_t j = i; j < tensors; j += segments)
      writer_->add(std::to_string(j), all.slice(static_cast<std::size_t>(j * size), size).view(u8, {size}), stream_);
  }
  writer_->commit(limit);

  const auto [set, made] = open();
  EXPECT_EQ(made, (Calls{segments, segments, segments, 0}));
  ASSERT_EQ(set.tensors.size(), static_cast<std::size_t>(tensors));
  for (const char* name : {"0", "1", "2", "9998"}) {
    const auto value = static_cast<unsigned char>(std::stoi(name) % segments);
    EXPECT_BYTES(test::read(set.tensors.at(name).buffer(), stream_), test::repeat(size, value));
  }
  writer_->commit(limit);  // another epoch: nothing of the old one is opened again
  const auto [nothing, more] = open();
  EXPECT_EQ(nothing.tensors.size(), 0U);
  EXPECT_EQ(more, (Calls{}));
}

// Each byte that is mapped costs time. So pages into which tensors go on are mapped once: together, and not alone.
TEST_F(CudaHeldSets, PagesAreMappedOnce) {
  constexpr std::size_t page = std::size_t{2} << 20U, size = page / 4 * 3;
  constexpr std::int64_t count = 16;
  const auto pool = make_pool(cuda::make_vmm_resource(gpu(), {.exportable = true}),
                              {.segment_bytes = page, .growth = 0, .exportable = true});
  std::vector<Buffer> buffers;
  for (std::int64_t i = 0; i < count; ++i) {
    buffers.push_back(pool->allocate(size, stream_));
    buffers.back().fill(static_cast<std::uint8_t>(i), stream_);
  }
  const auto commit = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      writer_->add(std::to_string(i), buffers[static_cast<std::size_t>(i)].view(u8, {static_cast<std::int64_t>(size)}),
                   stream_);
    writer_->commit(limit);
  };
  const auto expect = [&](const ipc::HeldSet& set, std::int64_t first, std::int64_t last) {
    ASSERT_EQ(set.tensors.size(), static_cast<std::size_t>(last - first));
    for (std::int64_t i = first; i < last; ++i) {
      EXPECT_BYTES(test::read(set.tensors.at(std::to_string(i)).buffer(), stream_),
                   test::repeat(size, static_cast<unsigned char>(i)));
    }
  };
  commit(0, count);
  const auto [all, made] = open();
  constexpr std::size_t pages = count * 3 / 4;
  EXPECT_EQ(made, (Calls{pages, pages, pages, 0}));
  expect(all, 0, count);

  commit(0, count);
  const auto [again, nothing] = open();
  EXPECT_EQ(nothing, (Calls{})) << "they are mapped already";
  expect(again, 0, count);

  commit(0, 1);  // the first page, which has no addresses of its own
  const auto [first, alone] = open();
  EXPECT_EQ(alone, (Calls{0, 1, 1, 0}));
  expect(first, 0, 1);

  commit(0, 3);  // goes on in two more
  const auto [three, joined] = open();
  EXPECT_EQ(joined, (Calls{2, 3, 3, 0})) << "the reader let go of what the last set did not have";
  expect(three, 0, 3);
  expect(all, 0, count);
}

// A run keeps all of its pages, also those that a later set has not.
TEST_F(CudaHeldSets, PagesThatLeftTheSetAreLetGo) {
  constexpr std::size_t page = std::size_t{2} << 20U, size = page / 4 * 3;
  const auto pool = make_pool(cuda::make_vmm_resource(gpu(), {.exportable = true}),
                              {.segment_bytes = page, .growth = 0, .exportable = true});
  std::vector<Buffer> buffers;  // the first in page 0, the second in 0 and 1, the third in 1 and 2
  for (int i = 0; i < 3; ++i) buffers.push_back(pool->allocate(size, stream_));
  const auto opens = [&](const std::vector<std::size_t>& tensors, std::size_t unmapped, std::size_t released) {
    for (const std::size_t i : tensors)
      writer_->add(std::to_string(i), buffers[i].view(u8, {static_cast<std::int64_t>(size)}), stream_);
    writer_->commit(limit);
    test::await_releases();
    const std::size_t unmaps = calls_("cuMemUnmap"), releases = calls_("cuMemRelease");
    EXPECT_EQ(open().first.tensors.size(), tensors.size());
    test::await_releases();
    EXPECT_EQ(calls_("cuMemUnmap") - unmaps, unmapped);
    EXPECT_EQ(calls_("cuMemRelease") - releases, released);
  };
  opens({2}, 0, 0);
  opens({1}, 2, 1);        // page 1 is not the first of its run any more
  opens({0}, 2, 1);        // page 0 alone
  opens({2}, 1, 1);        // pages 1 and 2 anew
  writer_->commit(limit);  // an empty set
  open();
  opens({0}, 0, 0);  // page 0 has addresses of its own now
  opens({0, 1}, 0, 0);
  opens({0}, 2, 1);
}

// The segments are good, and the driver has memory again when the reader asks next.
TEST_F(CudaHeldSets, AShortageOfTheDriverIsNoFaultOfTheSet) {
  constexpr std::size_t page = std::size_t{2} << 20U, size = page / 4 * 3;
  const auto fail = reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"));
  const auto pool = make_pool(cuda::make_vmm_resource(gpu(), {.exportable = true}),
                              {.segment_bytes = page, .growth = 0, .exportable = true});
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < 2; ++i) {  // in one page, and then in two
    buffers.push_back(pool->allocate(size, stream_));
    writer_->add("a", buffers.back().view(u8, {static_cast<std::int64_t>(size)}), stream_);
    writer_->commit(limit);
    for (const char* call : {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
      reader_.emplace(path_, "weights");
      epoch_ = 0;
      fail(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_ERROR(open(), Errc::out_of_memory, call) << i;
      fail("", 0, 0);
      EXPECT_EQ(open().first.tensors.size(), 1U) << call << ", " << i;
    }
  }
}

}  // namespace
}  // namespace weir::cuda_test
