// SPDX-License-Identifier: Apache-2.0
// Memory of CUDA that Vulkan's devices of the same GPU reach. Without a real GPU, weir_vulkan_tests_on_one_gpu runs
// this over the modelled CUDA driver, whose files are made so that the CPU's Vulkan driver opens them.
#include <dlpack/dlpack.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "altered.hpp"
#include "app.hpp"
#include "commands.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "gate.hpp"
#include "modelled_driver.hpp"
#include "settle.hpp"
#include "weir/dlpack.hpp"
#include "weir/pool.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/view.hpp"
#if WEIR_HAS_CUDA
#include "weir/cuda.hpp"

namespace weir::vulkan::test {

using weir::test::await_releases;
using weir::test::Bytes;
using weir::test::Gate;
using weir::test::open_fds;
using weir::test::pattern;
using weir::test::read;
using weir::test::repeat;
using weir::test::write;

namespace {

constexpr std::size_t size = 70001;

void make_files_like(int file) {
  const auto make = reinterpret_cast<void (*)(int)>(weir::test::find_in_model("fake_cuda_make_files_like"));
  if (make) make(file);
}

// A CUDA device that is one GPU with a listed Vulkan device. None: the reason is printed by the caller.
std::optional<Device> gpu() {
  for (const Device& device : devices()) {
    if (device.backend() == "cuda" && spi::viewer_of(device.state(), "vulkan")) return device;
  }
  return {};
}

// Have the modelled driver make files that the CPU's Vulkan driver opens.
void show_files_of(const Device& vulkan) {
  const Buffer model = make_device_resource(vulkan, {.exportable = true})->allocate(1, Stream(vulkan));
  spi::Segment& segment = *model.location().segment;
  make_files_like(vulkan.state().backend->segments->export_handle(segment).fd.get());
}

Buffer filled(const ResourcePtr& resource, const Bytes& bytes, const Stream& stream) {
  Buffer buffer = resource->allocate(bytes.size(), stream);
  write(buffer, bytes, stream);
  stream.synchronize();
  return buffer;
}

std::ptrdiff_t more = 0;
VKAPI_ATTR void VKAPI_CALL needs_more(VkDevice device, const VkBufferMemoryRequirementsInfo2* question,
                                      VkMemoryRequirements2* answer) {
  const auto real = Altered::whole_of_device(device, Altered::name);
  reinterpret_cast<PFN_vkGetBufferMemoryRequirements2>(real)(device, question, answer);
  answer->memoryRequirements.size += static_cast<VkDeviceSize>(more);
}

spi::Segment* view_of(const Buffer& buffer, const Device& device) {
  return buffer.location().segment->view_of(device.state());
}

}  // namespace

class CudaViews : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = gpu();
    if (!found) GTEST_SKIP() << "no CUDA device and Vulkan device are one GPU";
    cuda_ = found;
    show_files_of(there());
    resource = cuda::make_vmm_resource(*cuda_, {.vulkan = true});
  }
  void TearDown() override {
    resource.reset();
    await_releases();
    make_files_like(-1);
  }
  [[nodiscard]] const Device& here() const { return *cuda_; }
  [[nodiscard]] Device there() const { return Device(*spi::viewer_of(cuda_->state(), "vulkan")); }

  ResourcePtr resource;

 private:
  std::optional<Device> cuda_;
};

TEST_F(CudaViews, CopiesGoThroughOneViewOfTheSegment) {
  const Stream stream(here()), other(there());
  for (const Stream& on : {other, stream, Stream(host_device())}) {
    const Bytes expected = pattern(size, 3);
    Buffer buffer = filled(resource, expected, stream);
    Buffer target = make_device_resource(there())->allocate(size, other);
    on.wait(other.record());
    target.copy_from(buffer, on);
    EXPECT_BYTES(read(target, on), expected) << on.device().id();
    target.fill(std::uint8_t{7}, 100, 50, on);
    buffer.copy_from(target, on);
    Bytes changed = expected;
    std::fill_n(changed.begin() + 100, 50, std::byte{7});
    EXPECT_BYTES(read(buffer, on), changed) << on.device().id();
    stream.wait(on.record());
    EXPECT_BYTES(read(buffer, stream), changed) << on.device().id();
    spi::Segment* const view = view_of(buffer, there());
    ASSERT_NE(view, nullptr);
    EXPECT_EQ(view->size, buffer.location().segment->size);
    Buffer(buffer.slice(10, 100)).copy_to(target, 0, 0, 100, other);
    EXPECT_EQ(view_of(buffer, there()), view);
    other.synchronize();
  }
}

TEST_F(CudaViews, EachSideSeesWhatTheOtherWroteBefore) {
  const Stream stream(here()), other(there());
  Buffer buffer = filled(resource, repeat(size, 0x11), stream);
  Buffer target = make_device_resource(there())->allocate(size, other);
  target.copy_from(buffer, other);
  other.synchronize();
  {
    Gate gate;
    gate.hold(stream);
    buffer.fill(std::uint8_t{0x22}, stream);
    other.wait(stream.record());
    target.copy_from(buffer, other);
    EXPECT_FALSE(other.done());
    gate.open();
    EXPECT_BYTES(read(target, other), repeat(size, 0x22));
  }
  Gate gate;
  gate.hold(other);
  buffer.fill(std::uint8_t{0x33}, other);
  stream.wait(other.record());
  Buffer copy = buffer.copy_to(stream);
  EXPECT_FALSE(stream.done());
  gate.open();
  EXPECT_BYTES(read(copy, stream), repeat(size, 0x33));
}

TEST_F(CudaViews, MemoryThatVulkanUsesIsNotReused) {
  const Stream stream(here()), other(there());
  const PoolPtr pool = make_pool(resource);
  Buffer buffer = filled(pool, pattern(size, 1), stream);
  Buffer target = make_device_resource(there())->allocate(size, other);
  other.synchronize();
  Gate gate;
  gate.hold(other);
  target.copy_from(buffer, other);
  buffer.close();
  for (int i = 0; i < 4; ++i) pool->allocate(size, stream).fill(std::uint8_t{0xff}, stream);
  stream.flush();
  gate.open();
  EXPECT_BYTES(read(target, other), pattern(size, 1));
  stream.synchronize();
}

TEST_F(CudaViews, BuffersOfAPoolShareTheirSegmentsView) {
  const Stream stream(here());
  const PoolPtr pool = make_pool(resource, {.initial_bytes = 4 << 20});
  const Buffer first = pool->allocate(size, stream), second = pool->allocate(size, stream);
  ASSERT_EQ(first.location().segment, second.location().segment);
  const NativeBuffer a = native(first), b = native(second);
  EXPECT_EQ(a.buffer, b.buffer);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_EQ(b.offset - a.offset, second.location().offset - first.location().offset);
  EXPECT_EQ(a.size, size);
  EXPECT_EQ(a.allocation_size, first.location().segment->size);
  EXPECT_FALSE(a.dedicated);
  const NativeBuffer none = native(pool->allocate(0, stream));
  EXPECT_EQ(none.buffer, nullptr);
}

TEST_F(CudaViews, EndWithTheMemoryAndLeaveNothing) {
  const Stream stream(here()), other(there());
  Buffer target = make_device_resource(there())->allocate(size, other);
  const auto once = [&] {
    const Buffer buffer = filled(resource, pattern(size, 1), stream);
    target.copy_from(buffer, other);
    other.synchronize();
    EXPECT_NE(view_of(buffer, there()), nullptr);
  };
  once();  // drivers open files of their own once
  await_releases();
  const auto files = open_fds();
  for (int i = 0; i < 3; ++i) {
    once();
    await_releases();
    EXPECT_FDS(files);
  }
}

TEST_F(CudaViews, MemoryThatWasNotMadeForVulkanIsNotOpened) {
  const Stream stream(here()), other(there());
  const Buffer buffer = filled(cuda::make_vmm_resource(here(), {.exportable = true}), pattern(size, 1), stream);
  EXPECT_ERROR((void)native(buffer), Errc::invalid_argument, "VmmOptions::vulkan");
  Buffer target = make_device_resource(there())->allocate(size, other);
  target.copy_from(buffer, other);
  EXPECT_BYTES(read(target, other), pattern(size, 1));
  EXPECT_EQ(view_of(buffer, there()), nullptr);
  const Buffer host = make_resource(host_device())->allocate(1, other);
  EXPECT_ERROR((void)native(host), Errc::invalid_argument, "is not a Vulkan device");
}

TEST_F(CudaViews, ToOtherFrameworksItIsMemoryOfCuda) {
  const Stream stream(here());
  const Buffer buffer = filled(resource, pattern(size, 1), stream);
  (void)native(buffer);
  const ManagedTensor managed = buffer.view(u8, {16}).to_dlpack(stream);
  EXPECT_EQ(managed.get()->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(managed.get()->dl_tensor.data), cuda::pointer(buffer));
  EXPECT_ERROR((void)buffer.view(u8, {16}).to_dlpack(stream, {.device = DlpackDevice{kDLVulkan, 0}}),
               Errc::incompatible, "cannot be exported as Vulkan");
}

// The CPU's driver opens no file without its header.
TEST_F(CudaViews, WhatTheDriverRefusesIsStagedAndAskedForAgainByName) {
  if (!weir::test::find_in_model("fake_cuda_make_files_like")) GTEST_SKIP() << "real drivers open such memory";
  make_files_like(-1);
  const Stream stream(here()), other(there());
  Buffer target = make_device_resource(there())->allocate(size, other);
  const auto once = [&] {
    const Buffer buffer = filled(resource, pattern(size, 1), stream);
    for (int i = 0; i < 2; ++i) {
      target.fill(std::uint8_t{0}, other);
      target.copy_from(buffer, other);
      EXPECT_BYTES(read(target, other), pattern(size, 1));
    }
    EXPECT_ERROR((void)native(buffer), Errc::unsupported, "vkAllocateMemory");
    EXPECT_EQ(view_of(buffer, there()), nullptr);
  };
  once();
  await_releases();
  const auto files = open_fds();
  once();
  await_releases();
  EXPECT_FDS(files);
}

/// An application's device on the GPU, beside the listed one.
class CudaViewsOfApplications : public OnApp {
 protected:
  void SetUp() override {
    OnApp::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto found = gpu();
    if (!found || !spi::can_view(device().state(), found->state()))
      GTEST_SKIP() << "no CUDA device and the application's device are one GPU";
    cuda_ = found;
    show_files_of(Device(*spi::viewer_of(cuda_->state(), "vulkan")));
    resource = cuda::make_vmm_resource(*cuda_, {.vulkan = true});
  }
  void TearDown() override {
    resource.reset();
    await_releases();
    make_files_like(-1);
    OnApp::TearDown();
  }
  [[nodiscard]] const Device& here() const { return *cuda_; }

  ResourcePtr resource;

 private:
  std::optional<Device> cuda_;
};

TEST_F(CudaViewsOfApplications, CommandsOfTheApplicationReachTheMemory) {
  const Stream stream(here()), other(device());
  const Bytes expected = pattern(4096, 5);
  Buffer source = filled(resource, expected, stream), target = filled(resource, repeat(4096, 1), stream);
  const NativeBuffer handles = native(source, device());
  EXPECT_EQ(view_of(source, device())->device, &device().state());
  EXPECT_NE(handles.buffer, native(source).buffer) << "the listed device has a view of its own";
  Commands commands(other);
  commands.copy(source, target);
  source.fill(std::uint8_t{9}, 0, 1, stream);
  other.wait(stream.record());
  submit(other, {commands.done()}, {source, target});
  stream.wait(other.record());
  Bytes changed = expected;
  changed[0] = std::byte{9};
  EXPECT_BYTES(read(target, stream), changed);
  other.synchronize();
}

TEST_F(CudaViewsOfApplications, CopiesOnItsStreamsNeedNoOtherDevice) {
  const Stream stream(here()), other(device());
  const Buffer buffer = filled(resource, pattern(size, 2), stream);
  Buffer target = make_device_resource(device())->allocate(size, other);
  target.copy_from(buffer, other);
  EXPECT_BYTES(read(target, other), pattern(size, 2));
  EXPECT_NE(view_of(buffer, device()), nullptr);
  EXPECT_EQ(view_of(buffer, Device(*spi::viewer_of(here().state(), "vulkan"))), nullptr);
}

TEST_F(CudaViewsOfApplications, HandlesAreOfTheDeviceThatIsNamed) {
  const Stream other(device());
  const Buffer own = make_device_resource(device())->allocate(16, other);
  EXPECT_EQ(native(own, device()).buffer, native(own).buffer);
  EXPECT_ERROR((void)native(own, vulkan::device(0)), Errc::invalid_argument, "and not of");
  EXPECT_ERROR((void)native(own, host_device()), Errc::invalid_argument, "not a Vulkan device");
}

TEST_F(CudaViewsOfApplications, ARefusedCallLeavesNothing) {
  const Stream stream(here());
  const Buffer buffer = filled(resource, pattern(16, 1), stream);
  const Buffer first = filled(resource, pattern(16, 1), stream);
  (void)native(first, device());  // with it come spares, which a failure gives back
  const auto files = open_fds();
  const auto buffers = [] { return calls().effective("vkCreateBuffer") - calls().effective("vkDestroyBuffer"); };
  const int before = buffers();
  for (const char* const call : {"vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory"}) {
    calls().fail(call, VK_ERROR_UNKNOWN);
    try {
      (void)native(buffer, device());
      ADD_FAILURE() << call << " was not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(call), std::string_view::npos) << error.what();
    }
    calls().fail_nothing();
    EXPECT_EQ(view_of(buffer, device()), nullptr);
    EXPECT_FDS(files);
    EXPECT_EQ(buffers(), before);
  }
  EXPECT_NE(native(buffer, device()).buffer, nullptr);
}

// Some drivers round a buffer's memory up. The size of the allocation that is opened must be named all the same.
TEST_F(CudaViewsOfApplications, TheMemoryIsOpenedWithItsOwnSize) {
  give_back();
  const Device other = adopt(
      altered(app->options(), "vkGetBufferMemoryRequirements2", reinterpret_cast<PFN_vkVoidFunction>(&needs_more)));
  const Stream stream(here());
  {
    const Buffer buffer = filled(resource, pattern(16, 1), stream);
    more = 4096;
    EXPECT_ERROR((void)native(buffer, other), Errc::unsupported, "the memory to open has");
    more = -4096;
    EXPECT_EQ(native(buffer, other).allocation_size, buffer.location().segment->size);
  }
  await_releases();
  vulkan::release(other);
}

TEST_F(CudaViewsOfApplications, TheDeviceIsNotGivenBackBeforeTheMemory) {
  const Stream stream(here());
  Buffer buffer = filled(resource, pattern(16, 1), stream);
  (void)native(buffer, device());
  EXPECT_ERROR(give_back(), Errc::invalid_argument, "1 buffers");
  buffer.close();
  give_back();
}

}  // namespace weir::vulkan::test
#endif
