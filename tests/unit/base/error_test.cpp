// SPDX-License-Identifier: Apache-2.0
// The error types, their conditions and messages, and the sink.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sink.hpp"
#include "threads.hpp"
#include "weir/error.hpp"

namespace weir::test {
namespace {

constexpr Errc every[] = {Errc::invalid_argument, Errc::unsupported,  Errc::incompatible,       Errc::closed,
                          Errc::device_lost,      Errc::peer_gone,    Errc::corrupt_descriptor, Errc::permission_denied,
                          Errc::timed_out,        Errc::out_of_memory};

TEST(Errors, CompareWithConditions) {
  for (const Errc mine : every) {
    const Error error(mine, "why");
    for (const Errc other : every) EXPECT_EQ(error.code() == other, mine == other);
    EXPECT_EQ(error.code().category(), weir_category());
    EXPECT_STREQ(error.what(), "why");
  }
}

TEST(Errors, ConditionsHaveDifferentWords) {
  std::vector<std::string> words;
  for (const Errc condition : every) {
    const std::string text = make_error_condition(condition).message();
    EXPECT_NE(text, "");
    for (const std::string& other : words) EXPECT_NE(text, other);
    words.push_back(text);
  }
  EXPECT_STREQ(weir_category().name(), "weir");
}

TEST(Errors, NativeCodesStay) {
  const Error error(std::make_error_code(std::errc::no_such_device), "open: no such device");
  EXPECT_EQ(error.code().value(), ENODEV);
  EXPECT_EQ(error.code().category(), std::generic_category());
  EXPECT_STREQ(error.what(), "open: no such device");
  EXPECT_NE(error.code(), Errc::closed);
}

TEST(Errors, RefusalsOfTheOperatingSystemArePermissionDenied) {
  for (const std::errc native : {std::errc::permission_denied, std::errc::operation_not_permitted}) {
    const Error error(std::make_error_code(native), "why");
    for (const Errc each : every) EXPECT_EQ(error.code() == each, each == Errc::permission_denied);
  }
}

TEST(Errors, ShortagesOfTheOperatingSystemAreOutOfMemory) {
  const Error error(std::make_error_code(std::errc::not_enough_memory), "why");
  for (const Errc each : every) EXPECT_EQ(error.code() == each, each == Errc::out_of_memory);
}

// They are thrown again, kept, and told of, after somebody moved them.
TEST(Errors, SayWhatTheySaidAfterAMove) {
  Error error(Errc::closed, "gone"), assigned(Errc::closed, "other");
  const Error moved = std::move(error);
  EXPECT_STREQ(moved.what(), "gone");
  EXPECT_STREQ(error.what(), "gone");  // NOLINT(bugprone-use-after-move)
  assigned = std::move(error);
  EXPECT_STREQ(assigned.what(), "gone");
  EXPECT_STREQ(error.what(), "gone");  // NOLINT(bugprone-use-after-move)
  Shortage shortage;
  shortage.requested = 7;
  OutOfMemory memory(shortage);
  const OutOfMemory taken = std::move(memory);
  EXPECT_STREQ(memory.what(), taken.what());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(memory.shortage().requested, 7U);
}

TEST(Errors, AreSystemErrorsAndCopyWithoutThrowing) {
  const Error original(Errc::closed, "gone");
  const Error copy = original;
  const std::system_error& base = copy;
  EXPECT_STREQ(base.what(), "gone");
  static_assert(std::is_nothrow_copy_constructible_v<Error>);
  static_assert(std::is_nothrow_copy_constructible_v<OutOfMemory>);
  static_assert(std::is_nothrow_move_constructible_v<Error> && std::is_nothrow_move_assignable_v<OutOfMemory>);
}

TEST(Errors, OutOfMemoryNamesWhoeverStillUsesMemory) {
  Shortage shortage;
  EXPECT_EQ(std::string(OutOfMemory(shortage).what()).find("used by"), std::string::npos);
  shortage.leased = 12345;
  shortage.leased_buffers = 3;
  shortage.leased_to = "process 4711";
  const std::string text = OutOfMemory(shortage).what();
  EXPECT_NE(text.find("; 3 buffers of 12 345 bytes in all are closed here and still used by process 4711. "),
            std::string::npos)
      << text;
}

TEST(Errors, OutOfMemoryTellsWhatItKnows) {
  Shortage shortage;
  shortage.requested = 1234567;
  shortage.alignment = 4096;
  shortage.in_use = 1000;
  shortage.limit = 2000000;
  shortage.device = "cuda:0 (Some GPU)";
  shortage.resource = "cuda.vmm";
  shortage.call = "cuMemCreate";
  shortage.native = std::make_error_code(std::errc::not_enough_memory);
  const OutOfMemory error(shortage);
  const std::string text = error.what();
  for (const char* part : {"1 234 567 bytes", "4096", "1 000 bytes", "2 000 000 bytes", "cuda:0 (Some GPU)", "cuda.vmm",
                           "cuMemCreate", "12"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  EXPECT_EQ(text.find("largest"), std::string::npos) << "unknown figures are left out: " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(error.shortage().requested, 1234567U);
  EXPECT_EQ(error.shortage().resource, "cuda.vmm");
}

TEST(Errors, OutOfMemoryOfNothingKnown) {
  Shortage shortage;
  shortage.requested = 7;
  shortage.resource = "host.pageable";
  const OutOfMemory error(shortage);
  const std::bad_alloc& base = error;
  const std::string text = base.what();
  EXPECT_NE(text.find("7 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("not asked"), std::string::npos) << text;
}

TEST(Sink, ReplacesAndReturnsThePrevious) {
  static int calls;
  calls = 0;
  const FailureSink mine = [](const Failure& failure) noexcept { calls += failure.message == "m" ? 1 : 100; };
  const FailureSink before = set_failure_sink(mine);
  report({std::make_error_code(std::errc::io_error), "w", "m"});
  EXPECT_EQ(set_failure_sink(before), mine);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(take_reports().empty());
  report({{}, "where", "what"});
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "where");
  EXPECT_EQ(reports[0].message, "what");
}

TEST(Sink, DefaultPrintsOneLineEachButNotMoreThan16ASecond) {
  const FailureSink before = set_failure_sink(nullptr);
  const auto start = std::chrono::steady_clock::now();
  std::string printed;
  while (printed.empty()) {  // this second's lines may be used up already
    testing::internal::CaptureStderr();
    for (int i = 0; i < 1000; ++i) report({{}, "Buffer::close", "driver said no"});
    printed = testing::internal::GetCapturedStderr();
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count() + 1;
  EXPECT_NE(set_failure_sink(before), before) << "null did not restore the default";
  std::size_t lines = 0;
  for (const char c : printed) lines += c == '\n' ? 1 : 0;
  EXPECT_LE(lines, 16U * static_cast<std::size_t>(seconds));
  EXPECT_NE(printed.find("Buffer::close: driver said no"), std::string::npos) << printed;
}

TEST(Sink, TakesReportsOfManyThreads) {
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) report({{}, "thread", "message"});
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(take_reports().size(), 400U);
}

}  // namespace
}  // namespace weir::test
