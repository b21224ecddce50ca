// SPDX-License-Identifier: Apache-2.0
// Life on an application's device.
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>

#include "altered.hpp"
#include "app.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "random_layouts.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "vulkan/device.hpp"
#include "weir/current_resource.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/segment.hpp"
#include "weir/tensor.hpp"

namespace weir::vulkan::test {
namespace {

VKAPI_ATTR void VKAPI_CALL properties_of_old(VkPhysicalDevice, VkPhysicalDeviceProperties* properties) {
  *properties = {};
  properties->apiVersion = VK_API_VERSION_1_1;
  std::strcpy(properties->deviceName, "an old one");
}

VKAPI_ATTR void VKAPI_CALL no_memory_fits(VkDevice device, const VkBufferMemoryRequirementsInfo2* question,
                                          VkMemoryRequirements2* answer) {
  const auto real = Altered::whole_of_device(device, Altered::name);
  reinterpret_cast<PFN_vkGetBufferMemoryRequirements2>(real)(device, question, answer);
  answer->memoryRequirements.memoryTypeBits = 0;
}

bool says_lost = false;
/// Some drivers report this value for every semaphore of a device that is lost, and success.
VKAPI_ATTR VkResult VKAPI_CALL value_of_a_lost_device(VkDevice device, VkSemaphore semaphore, std::uint64_t* value) {
  const auto real = Altered::whole_of_device(device, Altered::name);
  const VkResult result = reinterpret_cast<PFN_vkGetSemaphoreCounterValue>(real)(device, semaphore, value);
  if (says_lost) *value = ~std::uint64_t{0};
  return result;
}

const App* shared_app = nullptr;
VKAPI_ATTR void VKAPI_CALL properties_of_an_integrated_gpu(VkPhysicalDevice device,
                                                           VkPhysicalDeviceProperties* properties) {
  const auto real = Altered::whole(shared_app->instance, Altered::name);
  reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(real)(device, properties);
  properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

const App* locked_app = nullptr;
/// The driver wants the queue for itself meanwhile.
VKAPI_ATTR VkResult VKAPI_CALL wait_with_the_lock(VkQueue queue) {
  EXPECT_GT(locked_app->locks, locked_app->unlocks);
  const auto real = Altered::whole_of_device(locked_app->device, Altered::name);
  return reinterpret_cast<PFN_vkQueueWaitIdle>(real)(queue);
}

}  // namespace

class Adoption : public OnApp {
 protected:
  /// Return whether buffers of this driver have addresses, which regions need that a shader copies.
  static bool have_addresses() {
    const Stream own(vulkan::device(0));
    return make_resource(own.device())->allocate(64, own).device_address() != 0;
  }
  /// Adopt the application's device once more, with these addresses.
  Device adopt_with_addresses() {
    give_back();
    auto options = app->options();
    options.buffer_device_address = true;
    return adopt(options);
  }
};

TEST_F(Adoption, WorksWithEveryKindAndTakesTheLock) {
  const Stream stream{device()};
  EXPECT_EQ(device().backend(), "vulkan");
  for (const KindInfo& info : device().kinds()) {
    const auto resource = make_resource(device(), info.kind);
    Buffer a = resource->allocate(5000, stream);
    a.fill(std::uint16_t{0xbeef}, stream);
    Buffer b = a.copy_to(stream);
    std::vector<std::uint16_t> words(2500);
    b.copy_to(std::as_writable_bytes(std::span(words)), stream);
    stream.synchronize();
    EXPECT_EQ(words.front(), 0xbeef) << to_string(info.kind);
    EXPECT_EQ(words.back(), 0xbeef) << to_string(info.kind);
  }
  EXPECT_GT(app->locks, 0);
  EXPECT_EQ(app->locks, calls()["vkQueueSubmit"]);
}

TEST_F(Adoption, ReleaseRefusesWhileBuffersLive) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device())->allocate(64, stream);
  EXPECT_ERROR(vulkan::release(device()), Errc::invalid_argument, "1 buffers and 1 streams");
  buffer.fill(std::byte{1}, stream);  // nothing has changed
  stream.synchronize();
}

TEST_F(Adoption, TheDefaultPoolDoesNotKeepTheDevice) {
  {
    const Stream stream{device()};
    Buffer buffer = current_resource(device())->allocate(64, stream);
    buffer.fill(std::byte{1}, stream);
  }
  give_back();
}

TEST_F(Adoption, ReleaseWaitsForPendingWork) {
  {
    const Stream stream{device()};
    const auto resource = make_device_resource(device());
    Buffer buffer = resource->allocate(std::size_t{32} << 20, stream);
    for (int i = 0; i < 20; ++i) buffer.fill(static_cast<std::uint8_t>(i), stream);
    std::vector<std::byte> bytes(buffer.size());
    buffer.copy_from(std::span<const std::byte>(bytes), stream);  // through staging memory
  }
  give_back();
}

TEST_F(Adoption, ReleaseWaitsForTheQueueUnderItsLock) {
  give_back();
  locked_app = app.get();
  const Device again =
      adopt(altered(app->options(), "vkQueueWaitIdle", reinterpret_cast<PFN_vkVoidFunction>(&wait_with_the_lock)));
  const int before = app->locks;
  vulkan::release(again);
  EXPECT_GT(app->locks, before);
}

// A view of CUDA's may keep the memory a moment longer.
TEST_F(Adoption, ReleaseWaitsForMemoryThatEndsLate) {
  spi::Ref<spi::Segment> late;
  {
    const Stream stream{device()};
    const Buffer buffer = make_device_resource(device())->allocate(64, stream);
    late = spi::Ref<spi::Segment>::retain(buffer.location().segment);
  }
  auto released = std::async(std::launch::async, [&] { give_back(); });
  EXPECT_EQ(released.wait_for(std::chrono::milliseconds{20}), std::future_status::timeout);
  late = {};
  released.get();
}

TEST_F(Adoption, ReleaseWaitsForTheAdoptedQueues) {
  VkSemaphore before = app->make_timeline(), after = app->make_timeline();
  app->submit(before, 0, after, 1);
  give_back();
  EXPECT_EQ(app->value(after), 1U);
  app->destroy(before);
  app->destroy(after);
}

TEST_F(Adoption, NothingWorksAfterRelease) {
  const Device kept = device();
  const auto resource = make_device_resource(kept);
  give_back();
  EXPECT_ERROR(Stream{kept}, Errc::closed, "vulkan::release");
  EXPECT_ERROR(vulkan::release(kept), Errc::closed, "vulkan::release");
  const Stream host{host_device()};
  EXPECT_ERROR(resource->allocate(64, host), Errc::closed, "vulkan::release");
}

TEST_F(Adoption, RefusesWhatIsIncomplete) {
  auto options = app->options();
  options.device = nullptr;
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "a handle is null");
  options = app->options();
  options.queues.clear();
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "no queue");
  options = app->options();
  options.queues[0].unlock = nullptr;
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "only one of lock and unlock");
  options = app->options();
  options = app->options();
  options.queues.push_back(options.queues[0]);
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "a queue was given twice");
  options = app->options();
  options.timeline_semaphore = false;
  EXPECT_ERROR(adopt(options), Errc::unsupported, "timelineSemaphore");
  options = app->options();
  options.get_instance_proc_addr = nullptr;
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "get_instance_proc_addr");
  EXPECT_ERROR(vulkan::release(host_device()), Errc::invalid_argument, "not a Vulkan device");
  EXPECT_ERROR(wrap(
                   device(), {}, [] {}, Stream{host_device()}),
               Errc::invalid_argument, "names no memory");
}

TEST_F(Adoption, RefusesDriversWithTooLittle) {
  give_back();
  EXPECT_ERROR(adopt(altered(app->options(), "vkGetPhysicalDeviceFeatures2")), Errc::incompatible,
               "the instance has no vkGetPhysicalDeviceFeatures2");
  EXPECT_ERROR(adopt(altered(app->options(), "vkQueueSubmit")), Errc::incompatible, "the device has no vkQueueSubmit");
  EXPECT_ERROR(adopt(altered(app->options(), "vkGetPhysicalDeviceProperties",
                             reinterpret_cast<PFN_vkVoidFunction>(&properties_of_old))),
               Errc::unsupported, "an old one has Vulkan 1.1.0, weir needs 1.2");
}

TEST_F(Adoption, RefusesWhatIsSaidToBeEnabledAndIsNot) {
  give_back();
  EXPECT_ERROR(adopt(altered(app->options(), "vkGetMemoryFdKHR")), Errc::invalid_argument, "no vkGetMemoryFdKHR");
  auto options = app->options();
  options.buffer_device_address = true;
  EXPECT_ERROR(adopt(altered(options, "vkGetBufferDeviceAddress")), Errc::invalid_argument,
               "no vkGetBufferDeviceAddress");
  options = app->options();
  options.external_memory_fd = false;  // nothing was claimed
  const Device alone = adopt(altered(options, "vkGetMemoryFdKHR"));
  vulkan::release(alone);
}

TEST_F(Adoption, ShadersThatCopyRegionsGoWithTheDevice) {
  using weir::test::Bytes;
  if (!have_addresses()) GTEST_SKIP() << "buffers of this driver have no addresses";
  give_back();
  auto options = app->options();
  const auto turn = [](const Device& on) {
    const Stream stream{on};
    const Bytes content = weir::test::pattern(32 * 32 * 4, 5);
    const Tensor from = filled(make_device_resource(on), content, stream).view(u32, {32, 32});
    const Tensor to = from.transpose().copy_to(stream);
    Bytes turned(content.size());
    weir::test::copy_elements(turned, to.layout(), content, from.layout().transpose());
    EXPECT_BYTES(weir::test::read(to.buffer(), stream), turned);
  };
  for (const bool addresses : {false, true}) {
    options.buffer_device_address = addresses;
    const Device adopted = adopt(options);
    calls().clear();
    turn(adopted);
    EXPECT_EQ(calls()["vkCmdDispatch"], addresses ? 1 : 0);
    vulkan::release(adopted);
  }
  const Device adopted = adopt(options);
  for (const char* call : {"vkCreatePipelineLayout", "vkCreateShaderModule", "vkCreateComputePipelines"}) {
    calls().clear();
    calls().fail(call, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    turn(adopted);
    EXPECT_EQ(calls()["vkCmdDispatch"], 0) << call << " failed: the driver copies row by row";
  }
  calls().fail_nothing();
  turn(adopted);
  EXPECT_EQ(calls()["vkCmdDispatch"], 1);
  vulkan::release(adopted);
}

TEST_F(Adoption, ARefusedReleaseLeavesTheShadersThatStreamsHaveRecorded) {
  using weir::test::Bytes;
  if (!have_addresses()) GTEST_SKIP() << "buffers of this driver have no addresses";
  const Device adopted = adopt_with_addresses();
  {
    const Stream stream{adopted};
    const Bytes content = weir::test::pattern(32 * 32 * 4, 5);
    const Tensor from = filled(make_device_resource(adopted), content, stream).view(u32, {32, 32});
    calls().clear();
    const Tensor to = from.transpose().copy_to(stream);
    EXPECT_ERROR(vulkan::release(adopted), Errc::invalid_argument, "1 streams");
    Bytes turned(content.size());
    weir::test::copy_elements(turned, to.layout(), content, from.layout().transpose());
    EXPECT_BYTES(weir::test::read(to.buffer(), stream), turned);
    EXPECT_EQ(calls()["vkCmdDispatch"], 1);
  }
  vulkan::release(adopted);
}

TEST_F(Adoption, ARefusedReleaseLeavesTheShadersForStreamsThatAreMadeMeanwhile) {
  if (!have_addresses()) GTEST_SKIP() << "buffers of this driver have no addresses";
  const Device adopted = adopt_with_addresses();
  const auto turn = [&] {
    const Stream stream{adopted};
    const auto from = make_device_resource(adopted)->allocate(32 * 32 * 4, stream).view(u32, {32, 32});
    (void)from.transpose().copy_to(stream);
    stream.synchronize();
  };
  calls().clear();
  turn();
  {
    const Buffer buffer = make_device_resource(adopted)->allocate(64, Stream{host_device()});
    EXPECT_ERROR(vulkan::release(adopted), Errc::invalid_argument, "1 buffers and 0 streams");
    EXPECT_EQ(calls().effective("vkDestroyPipeline"), 0);
    turn();
  }
  EXPECT_EQ(calls()["vkCmdDispatch"], 2);
  EXPECT_EQ(calls()["vkCreateComputePipelines"], 1);
  vulkan::release(adopted);
  EXPECT_EQ(calls().effective("vkDestroyPipeline"), 1);
}

TEST_F(Adoption, OneQueueInTwoAdoptionsIsUsedInTurns) {
  give_back();
  auto options = app->options();
  options.queues = {{app->queue, {}, {}}};
  const Device first = adopt(options), second = adopt(options);
  const auto work = [](const Device& on) {
    const Stream stream{on};
    Buffer buffer = make_device_resource(on)->allocate(4096, stream);
    for (std::uint32_t i = 0; i < 300; ++i) {
      buffer.fill(i, stream);
      stream.flush();  // validation, and the judge, see two threads at one queue
    }
    std::vector<std::uint32_t> words(1024);
    buffer.copy_to(std::as_writable_bytes(std::span(words)), stream);
    stream.synchronize();
    EXPECT_EQ(words.back(), 299U);
  };
  weir::test::Thread other([&] { work(second); });
  work(first);
  other.join();
  vulkan::release(first);
  vulkan::release(second);
}

TEST_F(Adoption, DescriptorsAreOpenedOnTheDeviceOfTheStream) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device(), {.exportable = true})->allocate(4096, stream);
  buffer.fill(std::uint32_t{7}, stream);
  stream.synchronize();  // a copy behind a point that is not reached would be recorded later
  const Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  EXPECT_EQ(opened.device(), device());
  Buffer copy = make_device_resource(device())->allocate(4096, stream);
  calls().clear();
  copy.copy_from(opened, stream);
  stream.flush();
  EXPECT_EQ(calls()["vkCmdCopyBuffer"], 1);
  EXPECT_EQ(calls()["vkAllocateMemory"], 0) << "through staging memory";
  std::uint32_t word = 0;
  copy.copy_to(std::as_writable_bytes(std::span(&word, 1)), stream);
  stream.synchronize();
  EXPECT_EQ(word, 7U);
  const Stream elsewhere{vulkan::device(0)};
  EXPECT_EQ(ipc::open(buffer.ipc_descriptor(stream), elsewhere).device(), vulkan::device(0));
}

TEST_F(Adoption, DescriptorsGoToTheListedDeviceWhereTheirsOpensNone) {
  give_back();
  auto options = app->options();
  options.external_memory_fd = false;
  const Device alone = adopt(options);
  {
    const Stream home{vulkan::device(0)}, stream{alone};
    const Buffer buffer = make_device_resource(home.device(), {.exportable = true})->allocate(4096, home);
    EXPECT_EQ(ipc::open(buffer.ipc_descriptor(home), stream).device(), home.device());
  }
  vulkan::release(alone);
}

TEST_F(Adoption, ADeviceOnWhichEveryValueIsReachedIsLost) {
  give_back();
  const Device odd = adopt(altered(app->options(), "vkGetSemaphoreCounterValue",
                                   reinterpret_cast<PFN_vkVoidFunction>(&value_of_a_lost_device)));
  {
    const Stream stream{odd};
    Buffer buffer = make_device_resource(odd)->allocate(4096, stream);
    buffer.fill(std::byte{1}, stream);
    stream.flush();
    says_lost = true;
    (void)stream.done();  // looks
    EXPECT_ERROR(buffer.fill(std::byte{2}, stream), Errc::device_lost, "vkGetSemaphoreCounterValue");
    EXPECT_EQ(weir::test::take_reports().size(), 1U);
    says_lost = false;
    app->wait_idle();  // it is not really lost
  }
  vulkan::release(odd);
}

TEST_F(Adoption, MemoryThatNoTypeCanHoldIsUnsupported) {
  give_back();
  const Device picky = adopt(
      altered(app->options(), "vkGetBufferMemoryRequirements2", reinterpret_cast<PFN_vkVoidFunction>(&no_memory_fits)));
  {
    const Stream stream{picky};
    EXPECT_ERROR(make_device_resource(picky)->allocate(64, stream), Errc::unsupported,
                 "no memory type of that kind can hold a buffer");
    EXPECT_ERROR(make_device_resource(picky, {.exportable = true})->allocate(64, stream), Errc::unsupported,
                 "no memory type of that kind can hold an exportable buffer");
  }
  vulkan::release(picky);
}

TEST_F(Adoption, IsNotReleasedWhileAnotherThreadMakesSomething) {
  give_back();
  const Device adopted = adopt(app->options());
  auto& state = static_cast<PhysicalDevice&>(adopted.state());
  {
    const PhysicalDevice::Making making(state);
    EXPECT_ERROR(vulkan::release(adopted), Errc::invalid_argument, "or makes a buffer or a stream");
    EXPECT_TRUE(Stream{adopted}.done()) << "the adoption is as it was";
  }
  vulkan::release(adopted);
  EXPECT_ERROR(PhysicalDevice::Making{state}, Errc::closed, "given back");
}

// The thread that closes the device opens it again if it finds a buffer that was made meanwhile.
TEST_F(Adoption, IsReleasedByOneThreadAtATime) {
  give_back();
  auto options = app->options();
  std::promise<void> at_the_queue, go_on;
  std::atomic<bool> comes_first{true};
  options.queues[0].lock = [&, lock = options.queues[0].lock] {
    if (comes_first.exchange(false)) {
      at_the_queue.set_value();
      go_on.get_future().wait();
    }
    lock();
  };
  const Device adopted = adopt(options);
  weir::test::Thread late(
      [&] { EXPECT_ERROR(vulkan::release(adopted), Errc::invalid_argument, "another thread releases"); });
  const weir::test::OnLeaving lets_it([&] { go_on.set_value(); });
  at_the_queue.get_future().wait();
  vulkan::release(adopted);
}

TEST_F(Adoption, NothingIsSharedWithoutTheExtension) {
  give_back();
  auto options = app->options();
  options.external_memory_fd = false;
  const Device alone = adopt(options);
  for (auto make : {&make_device_resource, &make_upload_resource, &make_readback_resource}) {
    EXPECT_ERROR(make(alone, {.exportable = true}), Errc::unsupported, "cannot be shared with other");
    EXPECT_FALSE(make(alone, {})->is_exportable());
  }
  EXPECT_ERROR(make_resource(alone, {.exportable = true}), Errc::unsupported, "cannot be shared");
  vulkan::release(alone);
}

// Its caches may hold old bytes of what the host writes.
TEST_F(Adoption, AnIntegratedGpuShowsOtherBackendsNothingThatTheHostMaps) {
  give_back();
  shared_app = app.get();
  const Device integrated = adopt(altered(app->options(), "vkGetPhysicalDeviceProperties",
                                          reinterpret_cast<PFN_vkVoidFunction>(&properties_of_an_integrated_gpu)));
  for (const KindInfo& info : integrated.kinds()) {
    if (!info.exportable) continue;
    const Stream stream{integrated};
    const Buffer buffer = make_resource(integrated, info.kind, {.exportable = true})->allocate(64, stream);
    EXPECT_EQ(buffer.location().segment->viewable, !info.host_accessible) << to_string(info.kind);
  }
  vulkan::release(integrated);
}

TEST_F(Adoption, WeirsOwnDeviceIsNotReleased) {
  EXPECT_ERROR(vulkan::release(vulkan::device(0)), Errc::invalid_argument, "was not adopted");
}

}  // namespace weir::vulkan::test
