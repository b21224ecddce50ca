// SPDX-License-Identifier: Apache-2.0
// The judge judged: each rule about commands, queues, lifetimes, owners and names is broken once and told, and nothing
// else is.

#include "judge_fixture.hpp"
#include "threads.hpp"

namespace weir::vulkan::test {
namespace {

// --- commands of one queue ------------------------------------------------------------------------------------------

TEST_F(Judge, LetsRightOrderPass) {
  const auto mapped = rig->memory(Sort::mapped);
  Batch(*rig).fill(a.buffer, 1).barrier().copy(a.buffer, b.buffer).barrier().fill(a.buffer, 2).signal(done, 1).submit();
  Batch(*rig)
      .barrier(Batch::all, VK_ACCESS_MEMORY_WRITE_BIT)
      .copy(b.buffer, mapped.buffer)
      .to_host()
      .signal(done, 2)
      .submit();
  rig->wait(done, 2);
  EXPECT_EQ(word_at(mapped.host), 1U);
  Batch(*rig).fill(a.buffer, 3).copy(b.buffer, c.buffer).submit(1);  // the host knows all before to be over
  EXPECT_TRUE(silent());
}

TEST_F(Judge, TellsWhatNoBarrierOrders) {
  Batch(*rig).fill(a.buffer, 1).copy(a.buffer, b.buffer).submit();
  EXPECT_TRUE(told(unordered)) << "read after write";
  Batch(*rig).barrier().fill(c.buffer, 1).fill(c.buffer, 2, 100, 4).submit();
  EXPECT_TRUE(told(unordered)) << "write after write";
  Batch(*rig).barrier().copy(c.buffer, a.buffer).fill(c.buffer, 1).submit();
  EXPECT_TRUE(told(unordered)) << "write after read";
  Batch(*rig)
      .barrier()
      .copy(c.buffer, a.buffer, 0, 0, 100)
      .copy(c.buffer, b.buffer, 0, 0, 100)
      .fill(a.buffer, 1, 100, 100)
      .submit();
  EXPECT_TRUE(silent()) << "reads, and other bytes";
}

TEST_F(Judge, TellsBarriersThatAreTooWeak) {
  const auto between = [&](auto&& put) {
    Batch batch(*rig);
    batch.barrier(Batch::all, VK_ACCESS_MEMORY_WRITE_BIT).fill(a.buffer, 1);
    put(batch);
    batch.copy(a.buffer, b.buffer).submit();
  };
  between([](Batch& batch) { batch.execution(Batch::transfer, Batch::transfer); });
  EXPECT_TRUE(told(unavailable));
  between([](Batch& batch) { batch.barrier(Batch::transfer, Batch::read); });
  EXPECT_TRUE(told(unavailable));
  between([](Batch& batch) { batch.barrier(Batch::transfer, Batch::write, Batch::transfer, Batch::write); });
  EXPECT_TRUE(told(invisible));
  between([](Batch& batch) { batch.barrier(Batch::transfer, Batch::write, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT); });
  EXPECT_TRUE(told(unordered));
  between([](Batch& batch) { batch.barrier(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT); });
  EXPECT_TRUE(told(unordered));
  between([](Batch& batch) { batch.barrier(VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, none); });
  EXPECT_TRUE(told(unordered));
  between([](Batch& batch) { batch.to_host(); });
  EXPECT_TRUE(told(unordered));
}

TEST_F(Judge, NeedsNoMemoryDependencyToWriteBehindAReader) {
  Batch(*rig).copy(a.buffer, b.buffer).execution(Batch::transfer, Batch::transfer).fill(a.buffer, 1).submit();
  EXPECT_TRUE(silent());
}

TEST_F(Judge, WantsAWriteToBeVisibleToTheNextOne) {
  Batch(*rig)
      .fill(a.buffer, 1)
      .barrier(Batch::transfer, Batch::write, Batch::transfer, Batch::read)
      .fill(a.buffer, 2)
      .submit();
  EXPECT_TRUE(told(invisible));
}

TEST_F(Judge, FollowsChainsOfBarriers) {
  constexpr auto shader = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  Batch(*rig)
      .fill(a.buffer, 1)
      .barrier(Batch::transfer, Batch::write, shader, none)
      .barrier(shader, none)
      .copy(a.buffer, b.buffer)
      .submit();
  EXPECT_TRUE(silent());
  Batch(*rig)
      .barrier()
      .fill(c.buffer, 1)
      .barrier(Batch::transfer, Batch::write, shader, none)
      .barrier(VK_PIPELINE_STAGE_HOST_BIT, none)
      .copy(c.buffer, a.buffer)
      .submit();
  EXPECT_TRUE(told(unordered)) << "the links do not touch";
}

TEST_F(Judge, TakesABarrierForOneBufferAsThat) {
  Batch(*rig)
      .fill(a.buffer, 1)
      .fill(b.buffer, 1)
      .barrier_for(a.buffer, Batch::write, Batch::read)
      .copy(a.buffer, c.buffer, 0, 0, 100)
      .submit();
  EXPECT_TRUE(silent());
  Batch(*rig)
      .barrier()
      .fill(a.buffer, 1)
      .fill(b.buffer, 1)
      .barrier_for(a.buffer, Batch::write, Batch::read)
      .copy(b.buffer, c.buffer, 0, 0, 100)
      .submit();
  EXPECT_TRUE(told(unavailable)) << "another buffer";
}

TEST_F(Judge, KnowsThatOrderOfSubmissionOrdersNothing) {
  Batch(*rig).fill(a.buffer, 1).submit();
  Batch(*rig).copy(a.buffer, b.buffer).submit();
  EXPECT_TRUE(told(unordered));
  Batch(*rig)
      .barrier(Batch::all, VK_ACCESS_MEMORY_WRITE_BIT, Batch::all, VK_ACCESS_MEMORY_READ_BIT)
      .copy(a.buffer, c.buffer)
      .submit();
  EXPECT_TRUE(silent());
}

TEST_F(Judge, TellsOverlapWithinACopy) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr VkDeviceSize to = 0;  // the driver calls memcpy, in which the sanitizer allows no other overlap
#else
  constexpr VkDeviceSize to = 99;
#endif
  Batch(*rig).copy(a.buffer, a.buffer, 0, to, 100).submit();
  EXPECT_TRUE(told("its ranges overlap"));
  Batch(*rig).barrier().copy(a.buffer, a.buffer, 0, 200, 100).submit();
  EXPECT_TRUE(silent());
}

// --- several queues -------------------------------------------------------------------------------------------------

TEST_F(Judge, WantsASemaphoreBetweenQueues) {
  Batch(*rig).fill(a.buffer, 1).signal(done, 1).submit(0);
  Batch(*rig).barrier(Batch::all, VK_ACCESS_MEMORY_WRITE_BIT).copy(a.buffer, b.buffer).submit(1);
  EXPECT_TRUE(told(unordered));
  Batch(*rig).wait(done, 1).copy(a.buffer, c.buffer).submit(2);
  EXPECT_TRUE(silent());
}

TEST_F(Judge, LooksAtTheStagesOfAWait) {
  Batch(*rig).fill(a.buffer, 1).signal(done, 1).submit(0);
  Batch(*rig).wait(done, 1, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT).copy(a.buffer, b.buffer).submit(1);
  EXPECT_TRUE(told(unordered));
  Batch(*rig).wait(done, 1, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT).copy(a.buffer, c.buffer).submit(2);
  EXPECT_TRUE(told(unordered));
}

TEST_F(Judge, LooksAtTheValueOfAWait) {
  Batch(*rig).fill(a.buffer, 1).signal(done, 1).submit(0);
  Batch(*rig).fill(b.buffer, 1).signal(done, 2).submit(0);
  Batch(*rig).wait(done, 1).copy(a.buffer, c.buffer, 0, 0, 100).submit(1);
  EXPECT_TRUE(silent());
  Batch(*rig).wait(done, 1).copy(b.buffer, c.buffer, 0, 200, 100).submit(1);
  EXPECT_TRUE(told(unordered));
}

TEST_F(Judge, FollowsSemaphoresFromQueueToQueue) {
  Batch(*rig).fill(a.buffer, 1).signal(done, 1).submit(0);
  Batch(*rig).wait(done, 1).fill(b.buffer, 1).signal(other, 1).submit(1);
  Batch(*rig).wait(other, 1).copy(a.buffer, c.buffer).submit(2);
  Batch(*rig).barrier().copy(b.buffer, a.buffer).submit(2);
  EXPECT_TRUE(silent()) << "waits hold for what is submitted later, too";
}

TEST_F(Judge, TellsAWaitBeforeItsSignal) {
  Batch(*rig).wait(done, 1).fill(a.buffer, 1).submit(1);
  EXPECT_TRUE(told("whose signal is not submitted"));
  Batch(*rig).signal(done, 1).submit(0);
}

TEST_F(Judge, TellsValuesThatDoNotIncrease) {
  Batch(*rig).signal(done, 2).submit();
  Batch(*rig).signal(done, 3).submit();
  EXPECT_TRUE(silent());
  Batch(*rig).signal(done, 3).submit();
  EXPECT_TRUE(told("whose last signal is 3"));
  rig->wait(done, 3);
  Batch(*rig).signal(done, 1).submit();
  EXPECT_TRUE(told("whose last signal is 3"));
}

TEST_F(Judge, TellsTwoThreadsAtOneQueue) {
  std::string lines;
  const auto submit = [&](VkSemaphore semaphore) {
    for (std::uint64_t i = 1; i <= 200; ++i) {
      VkTimelineSemaphoreSubmitInfo values{};
      values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
      values.signalSemaphoreValueCount = 1;
      values.pSignalSemaphoreValues = &i;
      VkSubmitInfo info{};
      info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
      info.pNext = &values;
      info.signalSemaphoreCount = 1;
      info.pSignalSemaphores = &semaphore;
      ASSERT_EQ(rig->fn.vkQueueSubmit(rig->queues[0], 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
    }
  };
  for (int round = 0; round < 50 && lines.empty(); ++round) {
    weir::test::Thread thread([&submit, theirs = rig->timeline()] { submit(theirs); });
    submit(rig->timeline());
    thread.join();
    lines = weir::test::take_judgements();
  }
  EXPECT_NE(lines.find("another thread is using queue"), std::string::npos) << lines;
}

// --- lifetime -------------------------------------------------------------------------------------------------------

TEST_F(Judge, TellsWhatIsDestroyedTooEarly) {
  for (const bool known : {false, true}) {
    const auto memory = rig->memory();
    VkBuffer second = rig->buffer_in(memory.memory, 0, 64);
    VkSemaphore waited = rig->timeline(), signalled = rig->timeline();
    Batch(*rig).signal(waited, 1).submit(1);
    auto use = [&, value = std::uint64_t{0}]() mutable {
      Batch batch(*rig);
      batch.barrier()
          .fill(memory.buffer, 1)
          .barrier()
          .fill(second, 1, 0, 64)
          .wait(waited, 1)
          .signal(signalled, ++value);
      batch.submit();
      if (known) rig->wait(signalled, value);
      return batch.pool;
    };
    const auto expect = [&](const char* text) { EXPECT_TRUE(known ? silent() : told(text)) << text; };
    rig->destroy(use());
    expect("vkDestroyCommandPool: commands of the pool are not known to be over");
    (void)use();
    rig->destroy(second);
    expect("vkDestroyBuffer");
    second = rig->buffer_in(memory.memory, 0, 64);
    (void)use();
    rig->destroy(waited);
    expect("vkDestroySemaphore");
    waited = rig->timeline();
    Batch(*rig).signal(waited, 1).submit(1);
    EXPECT_EQ(rig->fn.vkResetCommandPool(rig->device, use(), 0), VK_SUCCESS);
    expect("vkResetCommandPool: commands of the pool are not known to be over");
    (void)use();
    rig->destroy(memory.memory);
    expect("vkFreeMemory");
  }
}

TEST_F(Judge, TellsCommandsThatAreSubmittedTwice) {
  Batch batch(*rig);
  batch.fill(a.buffer, 1).submit();
  EXPECT_TRUE(silent());
  batch.again();
  EXPECT_NE(weir::test::take_judgements().find("were submitted before"), std::string::npos);
}

TEST_F(Judge, TellsADeviceThatEndsAtWork) {
  const Rig::Memory memory = rig->memory();
  Batch(*rig).fill(memory.buffer, 1).submit();
  rig->queues.clear();  // so that nobody waits
  rig.reset();
  const auto lines = weir::test::take_judgements();
  EXPECT_NE(lines.find("vkDestroyCommandPool"), std::string::npos) << lines;
}

// --- owners ---------------------------------------------------------------------------------------------------------

TEST_F(Judge, WantsSharedMemoryAcquiredAndReleased) {
  const auto shared = rig->memory(Sort::external);
  Batch(*rig).acquire(shared.buffer).fill(shared.buffer, 1).release(shared.buffer).submit();
  Batch(*rig)
      .barrier(Batch::all, VK_ACCESS_MEMORY_WRITE_BIT, Batch::all,
               VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT)
      .acquire(shared.buffer)
      .copy(shared.buffer, a.buffer)
      .release(shared.buffer)
      .submit();
  EXPECT_TRUE(silent());
  const auto next = [&] {
    Batch batch(*rig);
    batch.barrier(Batch::all, VK_ACCESS_MEMORY_WRITE_BIT, Batch::all,
                  VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    return batch;
  };
  next().fill(shared.buffer, 1).submit();
  EXPECT_TRUE(told("without acquiring them"));
  next().acquire(shared.buffer).fill(shared.buffer, 1).submit();
  EXPECT_TRUE(told("are not released at the end of the batch"));
  next().acquire(shared.buffer).release(shared.buffer).fill(shared.buffer, 1).submit();
  EXPECT_TRUE(told("without acquiring them"));
  next().acquire(shared.buffer, Batch::read).fill(shared.buffer, 1).release(shared.buffer).submit();
  EXPECT_TRUE(told("which were acquired for other accesses"));
  next().acquire(shared.buffer).fill(shared.buffer, 1).release(shared.buffer, none).submit();
  EXPECT_TRUE(told("the write is not made available"));
  next().acquire(shared.buffer).acquire(shared.buffer).release(shared.buffer).release(shared.buffer).submit();
  EXPECT_TRUE(told("which they are already"));
  next().release(shared.buffer).submit();
  EXPECT_TRUE(told("which are not acquired"));
}

TEST_F(Judge, WantsAnAcquireBehindTheLastWriter) {
  const auto shared = rig->memory(Sort::external);
  Batch(*rig).acquire(shared.buffer).fill(shared.buffer, 1).release(shared.buffer).signal(done, 1).submit(0);
  Batch(*rig).acquire(shared.buffer).copy(shared.buffer, a.buffer).release(shared.buffer).submit(1);
  const auto lines = weir::test::take_judgements();
  EXPECT_NE(lines.find("it acquires bytes"), std::string::npos) << lines;
  Batch(*rig).wait(done, 1).acquire(shared.buffer).copy(shared.buffer, b.buffer).release(shared.buffer).submit(2);
  EXPECT_TRUE(silent());
}

// --- several names of one memory ------------------------------------------------------------------------------------

TEST_F(Judge, KnowsMemoryByAllItsBuffers) {
  VkBuffer upper = rig->buffer_in(a.memory, 1024, Rig::bytes);
  Batch(*rig).fill(a.buffer, 1, 1024, 4).copy(upper, b.buffer, 0, 0, 4).submit();
  EXPECT_TRUE(told(unordered));
  Batch(*rig).barrier().fill(a.buffer, 1, 1020, 4).copy(upper, b.buffer, 0, 100, 4).submit();
  EXPECT_TRUE(silent());
}

TEST_F(Judge, KnowsMemoryThatComesBackThroughAFile) {
  const auto shared = rig->memory(Sort::external);
  const auto again = rig->memory(Sort::external, rig->export_fd(shared));
  Batch(*rig)
      .acquire(shared.buffer)
      .acquire(again.buffer)
      .fill(shared.buffer, 1)
      .copy(again.buffer, a.buffer)
      .release(shared.buffer)
      .release(again.buffer)
      .submit();
  EXPECT_NE(weir::test::take_judgements().find(unordered), std::string::npos);
}

}  // namespace
}  // namespace weir::vulkan::test
