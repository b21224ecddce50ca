// SPDX-License-Identifier: Apache-2.0
// The trace that a resource writes: its lines, when they are written, and what does not stop because of it.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "adaptors/logging/trace_writer.hpp"
#include "expect.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/adaptors/logging.hpp"
#include "weir/buffer.hpp"
#include "weir/device.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"
#include "weir/spi/block.hpp"

namespace weir::test {
namespace {

using detail::TraceWriter;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class LoggingTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> lines() const {
    resource->flush();
    return lines_of(out->str());
  }
  /// Whether line `which` is this operation; the fields are a pattern.
  [[nodiscard]] static testing::AssertionResult is(const std::string& line, const std::string& fields) {
    const std::regex pattern("[0-9]+\t[0-9]+\thost:0\thost\\.pageable\t" + fields);
    if (std::regex_match(line, pattern)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << line << " is not " << fields;
  }

  std::shared_ptr<std::ostringstream> out = std::make_shared<std::ostringstream>();
  LoggingPtr resource = make_logging(host::make_pageable_resource(), out);
  Stream stream{host_device()};
  std::string id = std::to_string(stream.id());
};

TEST_F(LoggingTest, WritesALineForEveryOperation) {
  const Stream other(host_device());
  Buffer buffer = resource->allocate(1000, stream, 512);
  Buffer share = buffer.share();
  buffer.close();
  share.use_on(other);
  share.close();
  (void)resource->allocate(0, stream);
  resource->trim(77);
  const auto written = lines();
  ASSERT_EQ(written.size(), 6U);
  EXPECT_EQ(written[0], "# weir trace 1\thost:0\thost.pageable");
  EXPECT_EQ(written[1], "# ns\tthread\tdevice\tresource\toperation\tbuffer\tbytes\talignment\tstream\tresult");
  std::smatch block;
  ASSERT_TRUE(std::regex_search(written[2], block, std::regex("\tallocate\t([0-9]+)\t")));
  EXPECT_TRUE(is(written[2], "allocate\t" + block.str(1) + "\t1000\t512\t" + id + "\tok"));
  EXPECT_TRUE(is(written[3], "use\t" + block.str(1) + "\t1000\t0\t" + std::to_string(other.id()) + "\tok"));
  EXPECT_TRUE(is(written[4], "close\t" + block.str(1) + "\t1000\t0\t" + id + "\tok"));
  EXPECT_TRUE(is(written[5], "trim\t0\t77\t0\t0\t0"));
}

TEST_F(LoggingTest, WritesWhatFailsAndWhy) {
  EXPECT_FALSE(resource->try_allocate(std::size_t{1} << 55U, stream).has_value());
  EXPECT_THROW((void)resource->allocate(std::size_t{1} << 55U, stream), OutOfMemory);
  const auto written = lines();
  ASSERT_EQ(written.size(), 4U);
  for (std::size_t i = 2; i < 4; ++i) {
    EXPECT_TRUE(is(written[i], "allocate\t0\t36028797018963968\t256\t" + id + "\tout of memory: limit [0-9]+"));
  }
}

/// Refuses everything, as a driver does or as weir itself does.
class Refusing final : public MemoryResource {
 public:
  Refusing() : MemoryResource(host_device(), "host.pageable", {}) {}
  [[nodiscard]] ResourceStats stats() const override { return {}; }
  std::size_t trim(std::size_t) override { throw Error(Errc::device_lost, "gone for good"); }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    if (request.bytes > 2000) throw 17;
    if (request.bytes > 1000) throw Error(Errc::device_lost, "gone\tfor\ngood");
    shortage.call = "mmap";
    shortage.native = std::make_error_code(std::errc::too_many_files_open);
    return nullptr;
  }
  void do_deallocate(spi::Block&) noexcept override {}
};

TEST_F(LoggingTest, ReasonsOfDriversAndErrorsStayInTheirField) {
  resource = make_logging(std::make_shared<Refusing>(), out);
  const std::size_t before = lines().size();
  EXPECT_FALSE(resource->try_allocate(1000, stream).has_value());
  EXPECT_ERROR((void)resource->allocate(1001, stream), Errc::device_lost, "gone");
  EXPECT_THROW((void)resource->allocate(2001, stream), int);
  EXPECT_ERROR((void)resource->trim(5), Errc::device_lost, "gone");
  const auto written = lines();
  ASSERT_EQ(written.size(), before + 4);
  EXPECT_TRUE(is(written[before], "allocate\t0\t1000\t256\t" + id + "\tout of memory: mmap: Too many open files"));
  EXPECT_TRUE(is(written[before + 1], "allocate\t0\t1001\t256\t" + id + "\terror: gone for good"));
  EXPECT_TRUE(is(written[before + 2], "allocate\t0\t2001\t256\t" + id + "\terror: an exception of an unknown type"));
  EXPECT_TRUE(is(written[before + 3], "trim\t0\t5\t0\t0\terror: gone for good"));
}

TEST_F(LoggingTest, PassesEverythingOn) {
  EXPECT_EQ(resource->name(), "log(host.pageable)");
  EXPECT_EQ(resource->upstream()->name(), "host.pageable");
  EXPECT_TRUE(resource->is_host_accessible());
  const Buffer buffer = resource->allocate(1000, stream);
  EXPECT_EQ(buffer.memory_resource(), resource);
  EXPECT_EQ(resource->stats().in_use, 1000U);
  EXPECT_EQ(resource->upstream()->stats().live_buffers, 1U);
}

TEST_F(LoggingTest, LastsAsLongAsItsBuffersAndThenWritesTheRest) {
  const std::weak_ptr<std::ostringstream> kept = out;
  Buffer buffer = resource->allocate(1000, stream);
  resource.reset();
  EXPECT_EQ(buffer.memory_resource()->name(), "log(host.pageable)");
  EXPECT_EQ(lines_of(out->str()).size(), 2U) << "what is collected is not written yet";
  buffer.close();
  const auto written = lines_of(out->str());
  ASSERT_EQ(written.size(), 4U);
  EXPECT_NE(written[3].find("\tclose\t"), std::string::npos);
  out.reset();
  EXPECT_TRUE(kept.expired()) << "the resource is gone, and what it wrote to";
}

TEST_F(LoggingTest, UnderAPoolAndOverOne) {
  const auto pool = make_pool(resource, {.segment_bytes = 1 << 20});
  for (int i = 0; i < 10; ++i) (void)pool->allocate(1000, stream);
  EXPECT_EQ(lines().size(), 3U) << "one segment";
  const auto above = std::make_shared<std::ostringstream>();
  const auto over = make_logging(pool, above);
  for (int i = 0; i < 10; ++i) (void)over->allocate(1000, stream);
  over->flush();
  EXPECT_EQ(lines_of(above->str()).size(), 22U);
}

TEST_F(LoggingTest, LinesOfManyThreadsStayWhole) {
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      const Stream own(host_device());
      for (int i = 0; i < 50; ++i) (void)resource->allocate(64, own);
    });
  }
  for (Thread& thread : threads) thread.join();
  const auto written = lines();
  ASSERT_EQ(written.size(), 2U + 400U);
  for (std::size_t i = 2; i < written.size(); ++i) {
    ASSERT_TRUE(is(written[i], "(allocate|close)\t[0-9]+\t64\t(256|0)\t[0-9]+\tok"));
  }
}

TEST(LoggingRefuses, WhatCannotBe) {
  EXPECT_ERROR((void)make_logging(nullptr, "/dev/null"), Errc::invalid_argument, "upstream");
  EXPECT_ERROR((void)make_logging(host::make_pageable_resource(), std::shared_ptr<std::ostream>{}),
               Errc::invalid_argument, "stream");
  EXPECT_THROW((void)make_logging(host::make_pageable_resource(), "/no/such/folder/trace"), std::system_error);
}

TEST(LoggingRefuses, NothingWhenTheDiskIsFull) {
  const Stream stream(host_device());
  const auto resource = make_logging(host::make_pageable_resource(), "/dev/full");
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("/dev/full"), std::string::npos) << reports[0].message;
  for (int i = 0; i < 2000; ++i) (void)resource->allocate(100, stream);
  resource->flush();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  EXPECT_TRUE(take_reports().empty()) << "it is said once";
}

TEST(LoggingRefuses, NothingWhenTheStreamDoes) {
  const Stream stream(host_device());
  const auto full = std::make_shared<std::ostringstream>();
  full->setstate(std::ios::badbit);
  const auto resource = make_logging(host::make_pageable_resource(), full, {.buffer_bytes = 0});
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "trace of a resource");
  EXPECT_EQ(reports[0].message, "the stream refuses to be written to");
  EXPECT_EQ(resource->allocate(100, stream).size(), 100U);
  EXPECT_TRUE(take_reports().empty()) << "it is said once";
}

// The sink is told by a thread for which nobody waits.
TEST(LoggingRefuses, NothingToASinkThatUsesTheResource) {
  static LoggingPtr resource;
  static std::size_t told;
  const auto full = std::make_shared<std::ostringstream>();
  resource = make_logging(host::make_pageable_resource(), full, {.buffer_bytes = 0});
  full->setstate(std::ios::badbit);
  told = 0;
  const FailureSink before = set_failure_sink([](const Failure&) noexcept {
    ++told;
    (void)resource->allocate(100, Stream(host_device()));
    resource->flush();
  });
  (void)resource->allocate(100, Stream(host_device()));
  set_failure_sink(before);
  EXPECT_EQ(told, 1U);
  resource.reset();
}

TEST(TraceWriters, WriteAtOnceWhenTheyMayCollectNothing) {
  std::string written;
  TraceWriter writer([&](std::string_view text) { written += text; }, 0);
  writer.add("one\n");
  EXPECT_EQ(written, "one\n");
  writer.add("two\n");
  EXPECT_EQ(written, "one\ntwo\n");
}

TEST(TraceWriters, CutLongLines) {
  std::string written;
  TraceWriter writer([&](std::string_view text) { written += text; }, 0);
  writer.add(std::string(5000, 'x'));
  EXPECT_EQ(written.size(), TraceWriter::longest_line);
}

TEST(TraceWriters, TellOnceOfAnExceptionOfAnyType) {
  TraceWriter writer([](std::string_view) { throw 17; }, 0);
  writer.add("one\n");
  writer.add("two\n");
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "trace of a resource");
  EXPECT_EQ(reports[0].message, "unknown exception");
}

/// A sink that stands still until it is let go, and says when it is entered.
class SlowSink {
 public:
  void operator()(std::string_view text) {
    std::unique_lock lock(mutex_);
    ++entered_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    written_ += text;
  }
  void await_entry() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return entered_ > 0; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] std::string written() {
    const std::scoped_lock lock(mutex_);
    return written_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int entered_ = 0;
  bool open_ = false;
  std::string written_;
};

TEST(TraceWriters, CollectWhileAnotherThreadWrites) {
  SlowSink sink;
  TraceWriter writer(std::ref(sink), 100);
  writer.add("first\n");
  Thread slow([&] { writer.flush(); });
  sink.await_entry();
  for (int i = 0; i < 10; ++i) writer.add("meanwhile\n");  // 100 bytes: as many as fit
  EXPECT_EQ(sink.written(), "");
  sink.open();
  slow.join();
  writer.flush();
  std::string expected = "first\n";
  for (int i = 0; i < 10; ++i) expected += "meanwhile\n";
  EXPECT_EQ(sink.written(), expected);
}

TEST(TraceWriters, ThatCollectNothingReturnWhenTheLineIsWritten) {
  SlowSink sink;
  TraceWriter writer(std::ref(sink), 0);
  Thread first([&] { writer.add("first\n"); });
  sink.await_entry();
  std::promise<void> begun;
  std::string seen;
  Thread second([&] {
    begun.set_value();
    writer.add("second\n");
    seen = sink.written();
  });
  begun.get_future().wait();
  sink.open();
  first.join();
  second.join();
  EXPECT_EQ(seen, "first\nsecond\n");
}

TEST(TraceWriters, LetWhoFillsTheSecondBufferWait) {
  SlowSink sink;
  TraceWriter writer(std::ref(sink), 100);
  writer.add("first\n");
  Thread slow([&] { writer.flush(); });
  sink.await_entry();
  Thread eager([&] {
    for (int i = 0; i < 1000; ++i) writer.add("0123456789\n");
  });
  sink.open();
  slow.join();
  eager.join();
  writer.flush();
  EXPECT_EQ(sink.written().size(), 6U + 1000U * 11U);
}

TEST(TraceWriters, AForkedChildWritesNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    TraceWriter writer([&](std::string_view text) { (void)!::write(ends[1], text.data(), text.size()); }, 1000);
    writer.add("parent\n");
    const pid_t child = fork();
    if (child == 0) {
      writer.add("child\n");
      writer.flush();
      _exit(0);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  close(ends[1]);
  std::string text(100, ' ');
  const auto count = read(ends[0], text.data(), text.size());
  close(ends[0]);
  EXPECT_EQ(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0))), "parent\n");
}

}  // namespace
}  // namespace weir::test
