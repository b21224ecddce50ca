// SPDX-License-Identifier: Apache-2.0
// Views of memory, over two backends that are only tables.
#include "weir/spi/view.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "fds.hpp"
#include "stream/releases.hpp"
#include "threads.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/resources.hpp"

namespace weir::test {
namespace {

/// What happened, in order.
std::vector<std::string>& log() {
  static std::vector<std::string> entries;
  return entries;
}
int refusals = 0;  // views that are still to be refused
std::optional<Error> refusal;

struct Noting final : spi::Segment {
  Noting(spi::DeviceState& of, std::string name) : name_(std::move(name)) {
    device = &of;
    size = 100;
    exportable = viewable = true;
    ++alive;
  }
  ~Noting() override {
    log().push_back("end of " + name_);
    last = std::this_thread::get_id();
    --alive;
  }
  static inline std::atomic<std::thread::id> last;  // that ended one
  static inline std::atomic<int> alive = 0;

 private:
  std::string name_;
};

/// A view whose memory ends later than its object.
struct Late final : spi::Segment {
  explicit Late(spi::DeviceState& of) { device = &of; }
  ~Late() override {
    log().push_back("end of late");
    kept = take_source();
  }
  static inline spi::Ref<spi::Segment> kept;
};

spi::ExportedHandle export_handle(spi::Segment&) {
  log().push_back("export");
  return {spi::HandleKind::vulkan_opaque_fd, spi::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)), 100, true};
}
bool views(const spi::DeviceState&, spi::HandleKind kind) noexcept { return kind == spi::HandleKind::vulkan_opaque_fd; }
spi::Segment* open_view(spi::DeviceState& device, const spi::Segment& of, spi::ExportedHandle handle) {
  log().push_back("open");
  EXPECT_TRUE(of.exportable);
  EXPECT_EQ(handle.allocation, 100U);
  EXPECT_TRUE(handle.dedicated);
  if (refusals != 0 && refusals-- != 0) throw *refusal;
  return new Noting(device, "view");
}

spi::Segment* reserve(spi::DeviceState& device, const spi::SegmentRequest&, Shortage&) {
  return new Noting(device, "memory");
}

const spi::SegmentOps exporting{
    .reserve = reserve, .export_handle = export_handle, .exports = spi::HandleKind::vulkan_opaque_fd};
const spi::SegmentOps viewing{.reserve = nullptr, .views = views, .open_view = open_view};
const spi::Backend exporter{.name = "exporter", .devices = nullptr, .segments = &exporting, .streams = nullptr};
const spi::Backend viewer{.name = "viewer", .devices = nullptr, .segments = &viewing, .streams = nullptr};

class SegmentViews : public testing::Test {
 protected:
  SegmentViews() {
    owner.backend = &exporter;
    first.backend = second.backend = &viewer;
    owner.uuid.bytes[3] = first.uuid.bytes[3] = second.uuid.bytes[3] = 7;
    log().clear();
    refusals = 0;
    refusal.emplace(Errc::unsupported, "cuImport said no");
  }
  ~SegmentViews() override { Late::kept = {}; }

  spi::DeviceState owner, first, second;
  spi::Ref<spi::Segment> memory = spi::Ref<spi::Segment>::adopt(new Noting(owner, "memory"));
};

using Log = std::vector<std::string>;

TEST_F(SegmentViews, AreForOneHardwareAndExportableMemory) {
  EXPECT_TRUE(spi::can_view(first, *memory));
  EXPECT_FALSE(spi::can_view(owner, *memory)) << "its own";
  EXPECT_FALSE(spi::can_view(host_device().state(), *memory)) << "another one's";
  first.uuid.bytes[15] = 1;
  EXPECT_FALSE(spi::can_view(first, *memory));
  first.uuid = owner.uuid = {};
  EXPECT_FALSE(spi::can_view(first, *memory)) << "no UUID is no identity";
  EXPECT_ERROR(spi::view(first, *memory), Errc::unsupported, "exportable");
  EXPECT_EQ(spi::try_view(first, *memory), nullptr);
  first.uuid = owner.uuid = second.uuid;
  memory->viewable = false;
  EXPECT_FALSE(spi::can_view(first, *memory)) << "what the host writes may not be seen";
  EXPECT_TRUE(spi::can_view(first, owner));
  EXPECT_EQ(log(), Log{}) << "no driver was called";
}

TEST_F(SegmentViews, AreOpenedOncePerDevice) {
  EXPECT_FALSE(memory->has_views());
  EXPECT_EQ(memory->view_of(first), nullptr);
  spi::Segment& view = spi::view(first, *memory);
  EXPECT_EQ(&spi::view(first, *memory), &view);
  EXPECT_EQ(spi::try_view(first, *memory), &view);
  EXPECT_EQ(memory->view_of(first), &view);
  EXPECT_EQ(log(), (Log{"export", "open"}));
  EXPECT_NE(&spi::view(second, *memory), &view);
  EXPECT_EQ(memory->view_of(first), &view);
}

TEST_F(SegmentViews, EndBeforeTheMemoryAndWithIt) {
  (void)spi::view(first, *memory);
  (void)spi::view(second, *memory);
  auto shared = memory;
  memory = {};
  EXPECT_EQ(log(), (Log{"export", "open", "export", "open"}));
  log().clear();
  shared = {};
  EXPECT_EQ(log(), (Log{"end of view", "end of view", "end of memory"}));
}

TEST_F(SegmentViews, MayKeepTheMemoryLonger) {
  memory->add_view(*new Late(second));
  (void)spi::view(first, *memory);
  log().clear();
  memory = {};
  EXPECT_EQ(log(), (Log{"end of view", "end of late"}));
  Late::kept = {};
  EXPECT_EQ(log().back(), "end of memory");
}

TEST_F(SegmentViews, ThatAreRefusedAreAskedForAgainByNameOnly) {
  const auto files = open_fds();
  refusals = 2;
  EXPECT_EQ(spi::try_view(first, *memory), nullptr);
  EXPECT_EQ(spi::try_view(first, *memory), nullptr);
  EXPECT_EQ(log(), (Log{"export", "open"})) << "asked once";
  EXPECT_ERROR(spi::view(first, *memory), Errc::unsupported, "cuImport said no");
  EXPECT_FALSE(memory->has_views());
  EXPECT_FDS(files);
  spi::Segment& view = spi::view(first, *memory);
  EXPECT_EQ(spi::try_view(first, *memory), &view);
}

TEST_F(SegmentViews, AreAskedForAgainAfterAShortage) {
  const Error device(Errc::out_of_memory, "memory");
  const Error files(std::make_error_code(std::errc::too_many_files_open), "files");
  for (const Error& shortage : {device, files}) {
    const auto other = spi::Ref<spi::Segment>::adopt(new Noting(owner, "memory"));
    refusals = 1;
    refusal.emplace(shortage);
    EXPECT_EQ(spi::try_view(first, *other), nullptr);
    EXPECT_NE(spi::try_view(first, *other), nullptr) << shortage.what();
  }
}

TEST_F(SegmentViews, AreRefusedInAForkedChild) {
  (void)spi::view(first, *memory);
  first.inherited = true;
  EXPECT_ERROR(spi::view(first, *memory), Errc::unsupported, "fork");
  first.inherited = false;
  owner.inherited = true;
  EXPECT_ERROR(spi::view(first, *memory), Errc::unsupported, "fork");
  owner.inherited = false;
}

// The end of a view may wait for its device, and a close may not.
TEST_F(SegmentViews, EndOnAThreadOfTheLibrary) {
  owner.kinds = {{.kind = MemoryKind::device, .device_accessible = true, .exportable = true, .alignment = 256}};
  for (const bool viewed : {false, true}) {
    const int others = Noting::alive;
    const Stream stream(host_device());
    const ResourcePtr resource = spi::make_segment_resource(owner, MemoryKind::device, true);
    Buffer buffer = resource->allocate(10, stream);
    if (viewed) (void)spi::view(first, *buffer.location().segment);
    buffer.close();
    while (Noting::alive != others) std::this_thread::yield();
    detail::drain_releases(owner);  // the thread counts the release with the device, which ends with the test
    EXPECT_EQ(Noting::last.load() == std::this_thread::get_id(), !viewed);
  }
}

TEST_F(SegmentViews, OfOneSegmentAreOpenedByOneThread) {
  std::vector<spi::Segment*> seen(4);
  {
    std::vector<Thread> threads;
    for (spi::Segment*& mine : seen) threads.emplace_back([&] { mine = &spi::view(first, *memory); });
  }
  EXPECT_EQ(seen, std::vector<spi::Segment*>(4, memory->view_of(first)));
  EXPECT_EQ(log(), (Log{"export", "open"}));
}

}  // namespace
}  // namespace weir::test
