// SPDX-License-Identifier: Apache-2.0
// The judge judged, about mapped memory and about the time that its device takes.
#include <unistd.h>

#include <thread>

#include "alone.hpp"
#include "judge_fixture.hpp"

namespace weir::vulkan::test {
namespace {

class JudgeOfTheHost : public Judge {};

// --- the host -------------------------------------------------------------------------------------------------------

TEST_F(JudgeOfTheHost, KeepsBytesFromTheHostThatNoBarrierSends) {
  const auto mapped = rig->memory(Sort::mapped);
  Batch(*rig).fill(mapped.buffer, 1).to_host().signal(done, 1).submit();
  rig->wait(done, 1);
  EXPECT_EQ(word_at(mapped.host), 1U);
  Batch(*rig).fill(mapped.buffer, 2).signal(done, 2).submit();
  rig->wait(done, 2);
  EXPECT_EQ(word_at(mapped.host), 1U) << "stale, as it may be";
  Batch(*rig)
      .barrier(Batch::transfer, Batch::write, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT)
      .signal(done, 3)
      .submit();
  rig->wait(done, 3);
  EXPECT_EQ(word_at(mapped.host), 2U);
  EXPECT_TRUE(silent());
}

TEST_F(JudgeOfTheHost, SendsWhatTheHostWroteWithASubmit) {
  const auto mapped = rig->memory(Sort::mapped);
  const auto back = rig->memory(Sort::mapped);
  std::memset(mapped.host, 7, Rig::bytes);
  Batch(*rig).copy(mapped.buffer, back.buffer).to_host().signal(done, 1).submit();
  rig->wait(done, 1);
  EXPECT_EQ(back.host[Rig::bytes - 1], std::byte{7});
  EXPECT_TRUE(silent());
}

TEST_F(JudgeOfTheHost, TellsAHostThatWritesTooEarly) {
  const auto mapped = rig->memory(Sort::mapped);
  std::memset(mapped.host, 7, Rig::bytes);
  Batch(*rig).copy(mapped.buffer, a.buffer).signal(done, 1).submit();
  mapped.host[10] = std::byte{8};
  Batch(*rig).barrier().copy(mapped.buffer, a.buffer).signal(done, 2).submit();
  EXPECT_TRUE(told("before it knew that this was over"));
  rig->wait(done, 2);
  mapped.host[10] = std::byte{9};
  Batch(*rig).copy(mapped.buffer, a.buffer).submit();
  EXPECT_TRUE(silent());
}

TEST_F(JudgeOfTheHost, TellsAHostThatWritesOverBytesItWasNotGiven) {
  const auto mapped = rig->memory(Sort::mapped);
  Batch(*rig).fill(mapped.buffer, 1).to_host(VK_ACCESS_HOST_READ_BIT).signal(done, 1).submit();
  rig->wait(done, 1);
  mapped.host[10] = std::byte{8};
  Batch(*rig).copy(mapped.buffer, a.buffer).submit();
  EXPECT_TRUE(told("no barrier lets the host write there afterwards"));
}

// --- a device that takes its time -----------------------------------------------------------------------------------

TEST_F(JudgeOfTheHost, BeginsOnlyWhenSomebodyWaits) {
  Batch(*rig).fill(a.buffer, 1).signal(done, 1).submit(0);
  Batch(*rig).fill(b.buffer, 1).signal(other, 1).submit(1);
  usleep(20'000);
  EXPECT_EQ(rig->value(done), 0U);
  EXPECT_EQ(rig->value(other), 0U);
  rig->wait(other, 1);
  EXPECT_EQ(rig->value(other), 1U);
  EXPECT_EQ(rig->value(done), 0U) << "the other queue was not needed";
  while (rig->value(done) == 0) std::this_thread::yield();  // whoever asks often enough is served
}

TEST_F(JudgeOfTheHost, RunsUnorderedQueuesAsItLikes) {
  const auto mapped = rig->memory(Sort::mapped);
  Batch(*rig).fill(a.buffer, 1).signal(done, 1).submit(0);
  rig->wait(done, 1);
  Batch(*rig).fill(a.buffer, 2).signal(done, 2).submit(0);
  Batch(*rig).copy(a.buffer, mapped.buffer).to_host().signal(other, 1).submit(1);
  rig->wait(other, 1);
  EXPECT_EQ(word_at(mapped.host), 1U) << "the writer was submitted first, and nothing says that it runs first";
  EXPECT_TRUE(told(unordered));
}

// --- memory that is not coherent ------------------------------------------------------------------------------------

class DISABLED_AloneJudge : public JudgeOfTheHost {
 protected:
  VkMappedMemoryRange range(const Rig::Memory& of, VkDeviceSize offset, VkDeviceSize size) {
    return {VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, nullptr, of.memory, offset, size};
  }
  void flush(const Rig::Memory& of, VkDeviceSize offset, VkDeviceSize size) {
    const auto part = range(of, offset, size);
    ASSERT_EQ(rig->fn.vkFlushMappedMemoryRanges(rig->device, 1, &part), VK_SUCCESS);
  }
  void invalidate(const Rig::Memory& of, VkDeviceSize offset, VkDeviceSize size) {
    const auto part = range(of, offset, size);
    ASSERT_EQ(rig->fn.vkInvalidateMappedMemoryRanges(rig->device, 1, &part), VK_SUCCESS);
  }
};

TEST_F(DISABLED_AloneJudge, Noncoherent) {
  const auto from = rig->memory(Sort::mapped), to = rig->memory(Sort::mapped);
  std::memset(from.host, 7, Rig::bytes);
  flush(from, 0, Rig::bytes);
  Batch(*rig).copy(from.buffer, to.buffer).to_host().signal(done, 1).submit();
  rig->wait(done, 1);
  EXPECT_EQ(to.host[0], std::byte{0}) << "not invalidated";
  invalidate(to, 256, 256);
  EXPECT_EQ(to.host[255], std::byte{0});
  EXPECT_EQ(to.host[256], std::byte{7});
  EXPECT_EQ(to.host[511], std::byte{7});
  EXPECT_EQ(to.host[512], std::byte{0});
  EXPECT_TRUE(silent());
  from.host[300] = std::byte{8};
  flush(from, 512, 256);
  Batch(*rig).copy(from.buffer, a.buffer, 0, 0, 256).submit();
  EXPECT_TRUE(silent()) << "other bytes";
  Batch(*rig).barrier().copy(from.buffer, a.buffer, 256, 256, 256).signal(done, 2).submit();
  EXPECT_TRUE(told("did not flush"));
  rig->wait(done, 2);
  invalidate(from, 256, 256);
  EXPECT_TRUE(told("did not flush"));
  flush(from, 256, 256);
  invalidate(from, 256, 256);
  EXPECT_EQ(from.host[300], std::byte{8});
  EXPECT_TRUE(silent());
  invalidate(from, 128, 256);
  EXPECT_TRUE(told("are not whole atoms"));
  invalidate(from, 0, 100);
  EXPECT_TRUE(told("are not whole atoms"));
  invalidate(from, 0, VK_WHOLE_SIZE);
  EXPECT_TRUE(silent());
}
TEST_F(JudgeOfTheHost, KeepsTheSidesOfOtherMemoryApartUntilTheyAreFlushed) {
  EXPECT_TRUE(weir::test::passes_alone("*AloneJudge.Noncoherent", {"WEIR_VULKAN_FORCE_NONCOHERENT=1"}));
}

}  // namespace
}  // namespace weir::vulkan::test
