// SPDX-License-Identifier: Apache-2.0
// Buffers that an application uses in ways of its own, which validation knows to be allowed.
#include "altered.hpp"
#include "app.hpp"
#include "bytes.hpp"
#include "commands.hpp"
#include "expect.hpp"
#include "vulkan/device.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"

namespace weir::vulkan::test {
namespace {

using weir::test::pattern;
using weir::test::read;
using weir::test::repeat;

constexpr std::size_t size = 4096;

/// Make a view of all of `buffer`, and destroy it again.
void view(const Buffer& buffer, const Commands& commands) {
  const auto at = native(buffer);
  VkBufferViewCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO;
  info.buffer = at.buffer;
  info.format = VK_FORMAT_R32_UINT;
  info.offset = at.offset;
  info.range = at.size;
  VkBufferView made = VK_NULL_HANDLE;
  EXPECT_EQ(commands.function<PFN_vkCreateBufferView>("vkCreateBufferView")(commands.device(), &info, nullptr, &made),
            VK_SUCCESS);
  commands.function<PFN_vkDestroyBufferView>("vkDestroyBufferView")(commands.device(), made, nullptr);
}

// What a driver could say of buffers with further usage. weir asks about such a buffer first, then about a usual one.
int asked = 0;
enum class Differ { nowhere, dedicated, bytes, type } differ;
VKAPI_ATTR void VKAPI_CALL needs_of_another(VkDevice device, const VkBufferMemoryRequirementsInfo2* question,
                                            VkMemoryRequirements2* answer) {
  const auto real = Altered::whole_of_device(device, Altered::name);
  reinterpret_cast<PFN_vkGetBufferMemoryRequirements2>(real)(device, question, answer);
  auto* dedicated = static_cast<VkMemoryDedicatedRequirements*>(answer->pNext);
  dedicated->prefersDedicatedAllocation = VK_TRUE;  // as NVIDIA's driver says of large buffers
  if (asked++ % 2 == 0) return;
  if (differ == Differ::bytes) answer->memoryRequirements.size *= 2;
  if (differ == Differ::type) answer->memoryRequirements.memoryTypeBits = 0;
  if (differ == Differ::dedicated) dedicated->requiresDedicatedAllocation = VK_TRUE;
}

VKAPI_ATTR void VKAPI_CALL no_vertices_are_shared(VkPhysicalDevice, const VkPhysicalDeviceExternalBufferInfo* info,
                                                  VkExternalBufferProperties* answer) {
  ++asked;
  answer->externalMemoryProperties = {};
  if (info->usage & VK_BUFFER_USAGE_VERTEX_BUFFER_BIT) return;
  answer->externalMemoryProperties.externalMemoryFeatures =
      VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
}

}  // namespace

class Usages : public OnApp {};

TEST_F(Usages, TexelBuffersHaveViewsInEveryKindAndInPools) {
  const Stream stream{device()};
  const Commands commands(stream);
  const BufferOptions texel{.usage = BufferUsage::uniform_texel | BufferUsage::storage_texel};
  for (const auto& resource : {make_device_resource(device(), texel), make_upload_resource(device(), texel),
                               make_readback_resource(device(), texel)}) {
    view(resource->allocate(size, stream), commands);
    const auto pool = make_pool(resource);
    Buffer first = pool->allocate(100, stream), second = pool->allocate(100, stream);
    EXPECT_EQ(native(first).buffer, native(second).buffer);
    view(first, commands);
    view(second, commands);
  }
  stream.synchronize();
  EXPECT_EQ(App::take_messages(), 0);
}

TEST_F(Usages, ValidationTellsAViewOfOtherBuffersAndTheirName) {
  if (!app->validated()) GTEST_SKIP() << "VK_LAYER_KHRONOS_validation is not installed";
  const Stream stream{device()};
  const Commands commands(stream);
  view(make_device_resource(device(), {.usage = BufferUsage::vertex})->allocate(size, stream), commands);
  EXPECT_EQ(App::take_messages(), 1);
  const auto told = App::last_message();
  EXPECT_NE(told.find("VUID-VkBufferViewCreateInfo-buffer-00932"), std::string::npos) << told;
  EXPECT_NE(told.find("weir vulkan.device 4 KiB"), std::string::npos) << told;
}

TEST_F(Usages, VerticesIndicesAndIndirectArgumentsAreBound) {
  const Stream stream{device()};
  const auto pool = make_pool(
      make_device_resource(device(), {.usage = BufferUsage::vertex | BufferUsage::index | BufferUsage::indirect}));
  Buffer vertices = pool->allocate(size, stream), indices = pool->allocate(size, stream);
  Buffer groups = pool->allocate(12, stream), target = pool->allocate(size, stream);
  vertices.fill(std::uint32_t{3}, stream);
  indices.fill(std::uint32_t{0}, stream);
  groups.fill(std::uint32_t{1}, stream);
  groups.fill(std::uint32_t{size / 4 / 64}, 0, 4, stream);
  Commands commands(stream);
  Squares squares(commands, vertices, target);
  squares.dispatch_indirect(groups);
  const auto first = native(vertices), second = native(indices);
  const VkBuffer bound = first.buffer;
  const VkDeviceSize offset = first.offset;
  commands.function<PFN_vkCmdBindVertexBuffers>("vkCmdBindVertexBuffers")(commands.handle(), 0, 1, &bound, &offset);
  commands.function<PFN_vkCmdBindIndexBuffer>("vkCmdBindIndexBuffer")(commands.handle(), second.buffer, second.offset,
                                                                      VK_INDEX_TYPE_UINT32);
  submit(stream, {commands.done()}, {vertices, indices, groups, target});
  std::vector<std::uint32_t> words(size / 4);
  target.copy_to(std::as_writable_bytes(std::span(words)), stream);
  stream.synchronize();
  EXPECT_EQ(words, std::vector<std::uint32_t>(words.size(), 10));
  EXPECT_EQ(App::take_messages(), 0);
}

TEST_F(Usages, OptionsOfAllBackendsConvert) {
  ResourceOptions all;
  all.exportable = true;
  EXPECT_TRUE(make_device_resource(device(), all)->is_exportable());
  EXPECT_TRUE(make_readback_resource(device(), {.exportable = true})->is_exportable());
  EXPECT_FALSE(make_upload_resource(device(), {})->is_exportable());
}

TEST_F(Usages, SharedBuffersHaveThemHereAndAreOpenedWithout) {
  const Stream stream{device()};
  const Commands commands(stream);
  const auto resource =
      make_device_resource(device(), {.exportable = true, .usage = BufferUsage::vertex | BufferUsage::uniform_texel});
  Buffer buffer = resource->allocate(size, stream);
  view(buffer, commands);
  weir::test::write(buffer, pattern(size, 1), stream);
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  EXPECT_BYTES(read(opened, stream), pattern(size, 1));
  opened.fill(std::uint8_t{2}, stream);
  EXPECT_BYTES(read(buffer, stream), repeat(size, 2));
}

TEST_F(Usages, BuffersThatOthersCouldNotOpenAreRefused) {
  give_back();
  const Device picky = adopt(altered(app->options(), "vkGetBufferMemoryRequirements2",
                                     reinterpret_cast<PFN_vkVoidFunction>(&needs_of_another)));
  {
    const Stream host{host_device()};
    const auto shared = make_device_resource(picky, {.exportable = true, .usage = BufferUsage::vertex});
    const auto expect = [&](Differ how, const char* text) {
      asked = 0;
      differ = how;
      EXPECT_ERROR(shared->try_allocate(size, host), Errc::unsupported, text);
    };
    expect(Differ::dedicated,
           "with usage 0x80: another process could not open the memory, because this driver's "
           "buffers want a dedicated allocation");
    expect(Differ::bytes, "want another allocation size");
    expect(Differ::type, "want another memory type");
    asked = 0;
    differ = Differ::nowhere;
    EXPECT_FALSE(native(shared->allocate(size, host)).dedicated) << "which is preferred, and not required";
    EXPECT_FALSE(native(make_device_resource(picky, {.exportable = true})->allocate(size, host)).dedicated);
    asked = 0;
    EXPECT_TRUE(native(make_device_resource(picky, {.usage = BufferUsage::vertex})->allocate(size, host)).dedicated);
    EXPECT_EQ(asked, 1) << "for this process alone nothing needs to agree";
  }
  vulkan::release(picky);
}

TEST_F(Usages, UsageThatTheDriverDoesNotShareIsRefusedAtOnce) {
  give_back();
  const Device picky = adopt(altered(app->options(), "vkGetPhysicalDeviceExternalBufferProperties",
                                     reinterpret_cast<PFN_vkVoidFunction>(&no_vertices_are_shared)));
  EXPECT_ERROR(make_device_resource(picky, {.exportable = true, .usage = BufferUsage::vertex}), Errc::unsupported,
               "does not share vulkan.device buffers with usage 0x80");
  EXPECT_TRUE(make_device_resource(picky, {.exportable = true, .usage = BufferUsage::index})->is_exportable());
  EXPECT_FALSE(make_device_resource(picky, {.usage = BufferUsage::vertex})->is_exportable());
  vulkan::release(picky);
}

TEST_F(Usages, ADriverIsNotAskedWhatItSharesOnceItsDeviceIsGivenBack) {
  give_back();
  const Device gone = adopt(altered(app->options(), "vkGetPhysicalDeviceExternalBufferProperties",
                                    reinterpret_cast<PFN_vkVoidFunction>(&no_vertices_are_shared)));
  vulkan::release(gone);
  asked = 0;
  for (auto make : {&make_device_resource, &make_upload_resource, &make_readback_resource}) {
    for (const BufferUsage usage : {BufferUsage::vertex, BufferUsage::index})
      EXPECT_ERROR(make(gone, {.exportable = true, .usage = usage}), Errc::closed, "vulkan::release");
  }
  EXPECT_EQ(asked, 0);
}

class Limits : public OnVulkan {};

TEST_F(Limits, TheDefaultAlignmentServesEveryUsage) {
  const auto& state = static_cast<const PhysicalDevice&>(device().state());
  VkPhysicalDeviceProperties properties;
  state.instance.fn.vkGetPhysicalDeviceProperties(state.handle, &properties);
  EXPECT_LE(properties.limits.minTexelBufferOffsetAlignment, default_alignment);
  EXPECT_LE(properties.limits.minUniformBufferOffsetAlignment, default_alignment);
  EXPECT_LE(properties.limits.minStorageBufferOffsetAlignment, default_alignment);
}

}  // namespace weir::vulkan::test
