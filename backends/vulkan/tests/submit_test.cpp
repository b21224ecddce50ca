// SPDX-License-Identifier: Apache-2.0
// An application's own commands on a stream, by `submit` and `submit_elsewhere`. The commands have no barriers at their
// ends: the judge, and the validation layer's synchronization checks, tell what is missing then.
#include <stdexcept>

#include "app.hpp"
#include "bytes.hpp"
#include "commands.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "sink.hpp"
#include "weir/pool.hpp"

namespace weir::vulkan::test {

using namespace std::chrono_literals;
using weir::test::Bytes;
using weir::test::Gate;
using weir::test::pattern;
using weir::test::read;
using weir::test::repeat;

class Submissions : public OnApp {
 protected:
  static constexpr std::size_t size = 4096;
  static constexpr std::uint32_t fives = 0x05050505;
};

TEST_F(Submissions, RunBetweenWhatIsBeforeAndWhatIsBehind) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer a = filled(resource, repeat(size, 1), stream), b = filled(resource, repeat(size, 2), stream);
  Commands commands(stream);
  commands.copy(a, b).barrier().fill(a, fives);
  a.fill(std::uint8_t{3}, stream);
  submit(stream, {commands.done()}, {a, b});
  b.fill(std::uint8_t{4}, 0, 1, stream);
  Buffer c = a.copy_to(stream);
  a.fill(std::uint8_t{6}, stream);
  Bytes model = repeat(size, 3);
  model[0] = std::byte{4};
  EXPECT_BYTES(read(b, stream), model);
  EXPECT_BYTES(read(c, stream), repeat(size, 5));
  EXPECT_BYTES(read(a, stream), repeat(size, 6));
}

TEST_F(Submissions, SeveralCommandBuffersRunOneAfterTheOtherAndAgain) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer a = filled(resource, repeat(size, 1), stream), b = filled(resource, repeat(size, 2), stream);
  Commands first(stream), second(stream);
  first.fill(a, fives).barrier();
  second.copy(a, b);
  const Event done = submit(stream, {first.done(), second.done()}, {a, b});
  EXPECT_BYTES(read(b, stream), repeat(size, 5));
  EXPECT_TRUE(done.done());
  b.fill(std::uint8_t{7}, stream);
  submit(stream, {second.done()}, {a, b}).wait();
  EXPECT_BYTES(read(b, stream), repeat(size, 5));
}

TEST_F(Submissions, TheHostSeesWhatTheyWroteInEveryMappedKind) {
  for (const KindInfo& kind : device().kinds()) {
    if (!kind.host_accessible) continue;
    const Stream stream{device()};
    Buffer source = filled(make_device_resource(device()), pattern(size, 1), stream);
    Buffer mapped = filled(make_resource(device(), kind.kind), repeat(size, 1), stream);
    Commands commands(stream);
    commands.copy(source, mapped);
    submit(stream, {commands.done()}, {source, mapped}).wait();
    invalidate(mapped);
    EXPECT_BYTES(std::span(mapped.host_data(), size), pattern(size, 1)) << to_string(kind.kind);
  }
}

TEST_F(Submissions, TheySeeWhatTheHostWrote) {
  const Stream stream{device()};
  Buffer upload = make_readback_resource(device())->allocate(size, stream);
  Buffer target = make_device_resource(device())->allocate(size, stream);
  Commands commands(stream);
  commands.copy(upload, target);
  const Bytes bytes = pattern(size, 2);
  stream.synchronize();
  std::copy(bytes.begin(), bytes.end(), upload.host_data());
  flush(upload);
  submit(stream, {commands.done()}, {upload, target});
  EXPECT_BYTES(read(target, stream), bytes);
}

TEST_F(Submissions, SharedMemoryIsAcquiredAndReleased) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device(), {.exportable = true});
  Buffer a = filled(resource, pattern(size, 3), stream), b = filled(resource, repeat(size, 1), stream);
  Commands commands(stream);
  commands.copy(a, b);
  submit(stream, {commands.done()}, {a, b, a});
  EXPECT_BYTES(read(b, stream), pattern(size, 3));
}

TEST_F(Submissions, ComputeShadersReadAndWriteBuffers) {
  const Stream stream{device()};
  const auto pool = make_pool(make_device_resource(device()));
  Buffer source = pool->allocate(size, stream), target = pool->allocate(size, stream);
  source.fill(std::uint32_t{12}, stream);
  Commands commands(stream);
  Squares squares(commands, source, target);
  squares.dispatch(size / sizeof(std::uint32_t) / 64);
  submit(stream, {commands.done()}, {source, target});
  std::vector<std::uint32_t> words(size / sizeof(std::uint32_t));
  target.copy_to(std::as_writable_bytes(std::span(words)), stream);
  stream.synchronize();
  EXPECT_EQ(words, std::vector<std::uint32_t>(words.size(), 145));
}

TEST_F(Submissions, WaitWithoutBlockingWhileTheStreamIsHeldBack) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer a = filled(resource, repeat(size, 1), stream), b = filled(resource, repeat(size, 2), stream);
  Commands commands(stream);
  commands.copy(a, b);
  Gate gate;
  gate.hold(stream);
  a.fill(std::uint8_t{3}, stream);
  const Event done = submit(stream, {commands.done()}, {a, b});
  a.fill(std::uint8_t{4}, stream);
  EXPECT_EQ(done.wait(50ms), WaitStatus::timeout);
  gate.open();
  EXPECT_BYTES(read(b, stream), repeat(size, 3));
  EXPECT_BYTES(read(a, stream), repeat(size, 4));
  EXPECT_TRUE(done.done());
}

TEST_F(Submissions, ClosedMemoryWaitsForThem) {
  const Stream home{device()}, stream{device()};
  const auto pool = make_pool(make_device_resource(device()));
  Buffer source = filled(pool, pattern(size, 4), home);
  Buffer target = filled(make_device_resource(device()), repeat(size, 1), stream);
  Commands commands(stream);
  commands.copy(source, target);
  Gate gate;
  gate.hold(stream);
  submit(stream, {commands.done()}, {source, target});
  source.close();
  for (int i = 0; i < 4; ++i) pool->allocate(size, home).fill(std::uint8_t{0xff}, home);
  home.synchronize();
  gate.open();
  EXPECT_BYTES(read(target, stream), pattern(size, 4));
}

TEST_F(Submissions, ARefusalLeavesTheStreamAsItWas) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer a = filled(resource, repeat(size, 1), stream), b = filled(resource, repeat(size, 2), stream);
  Buffer shared = filled(make_readback_resource(device(), {.exportable = true}), repeat(size, 3), stream);
  Commands commands(stream);
  commands.fill(b, fives);
  const auto try_with = [&](const char* call, int nth) {
    a.fill(std::uint8_t{9}, stream);  // recorded, and accepted
    calls().fail(call, VK_ERROR_OUT_OF_HOST_MEMORY, nth);
    EXPECT_ERROR(submit(stream, {commands.done()}, {b, shared}), Errc::out_of_memory, call) << nth;
    calls().fail_nothing();
    EXPECT_BYTES(read(a, stream), repeat(size, 9)) << call << ' ' << nth;
    EXPECT_BYTES(read(b, stream), repeat(size, 2)) << call << ' ' << nth;
    shared.fill(std::uint8_t{3}, stream);
    a.fill(std::uint8_t{1}, stream);
    EXPECT_BYTES(read(a, stream), repeat(size, 1)) << call << ' ' << nth;
  };
  try_with("vkQueueSubmit", 2);  // the first is of what was recorded
  for (const char* call : {"vkBeginCommandBuffer", "vkEndCommandBuffer", "vkResetCommandPool"})
    for (int nth = 2; nth <= (std::string_view(call) == "vkEndCommandBuffer" ? 3 : 2); ++nth) try_with(call, nth);
  EXPECT_EQ(weir::test::take_reports().size(), 0U);
  submit(stream, {commands.done()}, {b, shared});
  EXPECT_BYTES(read(b, stream), repeat(size, 5));
}

TEST_F(Submissions, ALostDeviceEndsTheStream) {
  const Stream stream{device()};
  Buffer a = filled(make_device_resource(device()), repeat(size, 1), stream);
  Commands commands(stream);
  commands.fill(a, fives);
  calls().fail("vkQueueSubmit", VK_ERROR_DEVICE_LOST);
  EXPECT_ERROR(submit(stream, {commands.done()}, {a}), Errc::device_lost, "vkQueueSubmit");
  EXPECT_ERROR(stream.synchronize(), Errc::device_lost, "vkQueueSubmit");
  EXPECT_EQ(weir::test::take_reports().size(), 1U);
}

TEST_F(Submissions, WhatIsWrongIsNamed) {
  const Stream stream{device()}, host{host_device()}, other{vulkan::device(0)};
  Buffer here = make_device_resource(device())->allocate(size, stream);
  Buffer there = make_device_resource(vulkan::device(0))->allocate(size, other);
  Buffer pageable = make_resource(host_device())->allocate(size, host);
  Buffer empty = make_device_resource(device())->allocate(0, stream);
  Commands commands(stream);
  VkCommandBuffer_T* const done = commands.fill(here, 1).done();
  EXPECT_ERROR(submit(stream, {}, {here}), Errc::invalid_argument, "there is no command buffer");
  EXPECT_ERROR(submit(stream, {done, nullptr}, {here}), Errc::invalid_argument, "one is null");
  EXPECT_ERROR(submit(stream, {done}, {here, there}), Errc::invalid_argument, "a buffer is of vulkan:0");
  EXPECT_ERROR(submit(stream, {done}, {pageable}), Errc::invalid_argument, "host:0 is not a Vulkan device");
  EXPECT_ERROR(submit(host, {done}, {here}), Errc::invalid_argument, "host:0 is not a Vulkan device");
  EXPECT_ERROR(submit_elsewhere(stream, {}, [](const NativeStream&) {}, {here}), Errc::invalid_argument,
               "the semaphore is null");
  submit(stream, {done}, {here, empty}).wait();
  here.close();
  EXPECT_ERROR(submit(stream, {done}, {here}), Errc::closed, "");
}

TEST_F(Submissions, OfTheApplicationAreOrdered) {
  VkSemaphore theirs = app->make_timeline();
  {
    const Stream home{device()}, stream{device()};
    const auto pool = make_pool(make_device_resource(device()));
    Buffer source = filled(pool, pattern(size, 5), home);
    Buffer target = filled(make_device_resource(device()), repeat(size, 1), stream);
    Commands commands(stream);
    commands.copy(source, target);
    const Event done = submit_elsewhere(stream, {theirs, 1},
                                        [&](const NativeStream& handles) {
                                          with_queue(stream, [&](VkQueue_T*) {
                                            app->submit(handles.semaphore, handles.value, theirs, 1, commands.done());
                                          });
                                        },
                                        {source, target});
    source.close();
    target.fill(std::uint8_t{7}, 0, 1, stream);
    for (int i = 0; i < 4; ++i) pool->allocate(size, home).fill(std::uint8_t{0xff}, home);
    Bytes model = pattern(size, 5);
    model[0] = std::byte{7};
    EXPECT_BYTES(read(target, stream), model);
    EXPECT_TRUE(done.done());
    EXPECT_EQ(app->value(theirs), 1U);
    home.synchronize();
    EXPECT_THROW(
        submit_elsewhere(stream, {theirs, 2}, [](const NativeStream&) { throw std::runtime_error("no"); }, {target}),
        std::runtime_error);
    target.fill(std::uint8_t{8}, stream);
    EXPECT_BYTES(read(target, stream), repeat(size, 8));
  }
  app->wait_idle();
  app->destroy(theirs);
}

class SubmissionsBetweenQueues : public OnVulkan {};

TEST_F(SubmissionsBetweenQueues, WaitForOtherStreamsAndAreWaitedFor) {
  constexpr std::size_t size = 4096;
  const Stream before{device()}, stream{device()}, behind{device()};
  const auto resource = make_device_resource(device());
  Buffer a = resource->allocate(size, before), b = resource->allocate(size, before);
  Commands commands(stream);
  commands.copy(a, b);
  for (std::uint8_t i = 1; i < 10; ++i) {
    a.fill(i, before);
    b.fill(std::uint8_t{0}, before);
    stream.wait(before.record());
    const Event done = submit(stream, {commands.done()}, {a, b});
    behind.wait(done);
    EXPECT_BYTES(read(b, behind), repeat(size, i));
    before.wait(behind.record());
  }
}

TEST_F(SubmissionsBetweenQueues, OfTheApplicationAreOrderedFromAQueueOfItsOwn) {
  constexpr std::size_t size = 4096;
  const Stream stream{device()}, other{device()};  // the other's queue stands for the application's
  const NativeStream theirs = native(other);
  if (native(stream).queue == theirs.queue) GTEST_SKIP() << "the device has one queue";
  const auto resource = make_device_resource(device());
  Buffer a = resource->allocate(size, stream), b = resource->allocate(size, stream);
  Commands commands(stream);
  commands.copy(a, b);
  const VkSemaphore semaphore = commands.make_timeline();
  for (std::uint8_t i = 1; i < 10; ++i) {
    a.fill(i, stream);
    b.fill(std::uint8_t{0}, stream);
    const Event done =
        submit_elsewhere(stream, {semaphore, i},
                         [&](const NativeStream& handles) {
                           with_queue(other, [&](VkQueue_T* queue) { commands.submit(queue, handles, semaphore, i); });
                         },
                         {a, b});
    Buffer copy = b.copy_to(stream);
    b.fill(std::uint8_t{0xff}, stream);
    EXPECT_BYTES(read(copy, stream), repeat(size, i));
    EXPECT_TRUE(done.done());
  }
  stream.synchronize();
  commands.destroy(semaphore);
}

}  // namespace weir::vulkan::test
