// SPDX-License-Identifier: Apache-2.0
// Streams of a driver that does not survive a fork, in the child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "stream/other_device.hpp"
#include "weir/stream.hpp"

namespace weir::test {
namespace {

// The parent may have it marked, because its device goes on. The child may not.
TEST(InheritedStream, ThatIsLostIsNotAsked) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer knows of 64 locks at a time, and a fork holds more";
#endif
  auto* const fake = new FakeStream(*new OtherDevice(false));
  fake->behaviour.foreign = true;
  const Stream stream{spi::Ref<spi::StreamState>::adopt(fake)};
  fake->put(FakeStream::fill());
  fake->become_unready();
  EXPECT_EQ(take_reports().size(), 1U);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    fake->behaviour.on_mark = [] { ::_exit(1); };
    fake->mark_outside();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const auto before = fake->log().size();
  fake->mark_outside();
  EXPECT_GT(fake->log().size(), before) << "the parent asks";
  fake->finish(100);
}

}  // namespace
}  // namespace weir::test
