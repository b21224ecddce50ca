// SPDX-License-Identifier: Apache-2.0
// Traces as text, in each format: what they mean, and what is refused where.

#include <gtest/gtest.h>

#include <string>

#include "replay/read_trace.hpp"

namespace weir::replay {
namespace {

constexpr char weir_header[] = "# weir trace 1\tcuda:0\tcuda.async\n";
constexpr char pytorch_header[] = "op,addr,size,stream\n";
constexpr char rmm_header[] = "Thread,Time,Action,Pointer,Size,Stream\n";

/// One line of a weir trace.
std::string line(const std::string& thread, const std::string& operation, const std::string& buffer,
                 const std::string& bytes, const std::string& stream = "1",
                 const std::string& result = "ok") {
  return "5\t" + thread + "\tcuda:0\tcuda.async\t" + operation + '\t' + buffer + '\t' + bytes + "\t512\t" +
         stream + '\t' + result + '\n';
}

/// The message with which `text` is refused; empty when it is not.
std::string refusal(const std::string& text) {
  try {
    (void)parse_trace(text);
  } catch (const TraceError& error) {
    return error.what();
  }
  return {};
}

#define EXPECT_REFUSED(text, where, what)                        \
  do {                                                           \
    const std::string refused = refusal(text);                   \
    EXPECT_EQ(refused.find(where ": "), 0U) << refused;          \
    EXPECT_NE(refused.find(what), std::string::npos) << refused; \
  } while (false)

TEST(Traces, OfWeirSayEverything) {
  const Trace trace =
      parse_trace(weir_header + std::string("# a remark\n") + line("7", "allocate", "900", "100") +
                  line("8", "allocate", "901", "50", "2") + line("8", "use", "900", "100", "2") +
                  line("7", "close", "900", "100") + line("7", "trim", "0", "64", "0", "128") +
                  line("7", "allocate", "900", "30"));
  EXPECT_EQ(trace.format, Format::weir);
  EXPECT_EQ(trace.device, "cuda:0");
  EXPECT_EQ(trace.resource, "cuda.async");
  ASSERT_EQ(trace.operations.size(), 6U);
  EXPECT_EQ(trace.buffers, 3U) << "an id may be used again";
  EXPECT_EQ(trace.streams, 2U);
  EXPECT_EQ(trace.threads, 2U);
  EXPECT_EQ(trace.peak_live, 150U);
  EXPECT_EQ(trace.left_open, 2U);
  EXPECT_FALSE(trace.torn);
  const Operation& first = trace.operations[0];
  EXPECT_EQ(first.action, Action::allocate);
  EXPECT_EQ(first.bytes, 100U);
  EXPECT_EQ(first.alignment, 512U);
  EXPECT_EQ(first.line, 3U);
  EXPECT_TRUE(first.shared) << "another thread uses it";
  EXPECT_FALSE(trace.operations[1].shared);
  const Operation& use = trace.operations[2];
  EXPECT_EQ(use.action, Action::use);
  EXPECT_EQ(use.stream, 1U);
  EXPECT_EQ(use.thread, 1U);
  EXPECT_EQ(use.turn, 1U);
  const Operation& close = trace.operations[3];
  EXPECT_EQ(close.action, Action::close);
  EXPECT_EQ(close.buffer, 0U);
  EXPECT_EQ(close.turn, 2U);
  EXPECT_FALSE(close.elsewhere);
  EXPECT_EQ(trace.operations[4].action, Action::trim);
  EXPECT_EQ(trace.operations[4].bytes, 64U);
  EXPECT_EQ(trace.operations[5].buffer, 2U);
}

TEST(Traces, AFailedAllocationIsTriedAgainAndClosed) {
  const Trace trace = parse_trace(weir_header + line("7", "allocate", "0", "4096", "1", "out of memory"));
  ASSERT_EQ(trace.operations.size(), 2U);
  EXPECT_EQ(trace.refused, 1U);
  EXPECT_EQ(trace.peak_live, 0U) << "nobody had it";
  EXPECT_TRUE(trace.operations[0].refused);
  EXPECT_EQ(trace.operations[0].bytes, 4096U);
  EXPECT_EQ(trace.operations[1].action, Action::close);
  EXPECT_EQ(trace.operations[1].buffer, trace.operations[0].buffer);
}

TEST(Traces, OfPyTorchAreFourColumns) {
  const Trace trace =
      parse_trace(std::string(pytorch_header) + "a,0,1000,0\na,0x10,500,3\nf,0,1000,0\nf,16,500,0\r\n");
  EXPECT_EQ(trace.format, Format::pytorch);
  ASSERT_EQ(trace.operations.size(), 4U);
  EXPECT_EQ(trace.peak_live, 1500U);
  EXPECT_EQ(trace.streams, 2U);
  EXPECT_EQ(trace.threads, 1U);
  EXPECT_EQ(trace.left_open, 0U);
  EXPECT_FALSE(trace.operations[2].elsewhere);
  EXPECT_TRUE(trace.operations[3].elsewhere) << "freed on another stream";
  EXPECT_EQ(trace.operations[1].alignment, 256U);
}

TEST(Traces, OfRmmHaveTimesOfEitherSort) {
  for (const std::string time : {"11:26:50.990234", "11:26:50:990234", "11:26:50", "1634567890.123456"}) {
    const Trace trace =
        parse_trace(rmm_header + ("12," + time + ",allocate,0x7f0000,256,0x0\n13," + time) +
                    ",allocate failure,(nil),99999,0x2\n13," + time + ",free,0x7f0000,256,0x2\n");
    EXPECT_EQ(trace.format, Format::rmm);
    ASSERT_EQ(trace.operations.size(), 4U);
    EXPECT_EQ(trace.threads, 2U);
    EXPECT_EQ(trace.streams, 2U);
    EXPECT_EQ(trace.refused, 1U);
    EXPECT_EQ(trace.operations[1].bytes, 99999U);
    EXPECT_TRUE(trace.operations[3].elsewhere);
    EXPECT_TRUE(trace.operations[3].shared);
  }
}

TEST(Traces, WhatBeganBeforeAndWhatHasNoBytesIsLeftOut) {
  const Trace trace = parse_trace(std::string(pytorch_header) +
                                  "f,5,100,0\na,6,0,0\nf,6,0,0\na,7,10,0\nf,7,10,0\nf,7,10,0\n");
  EXPECT_EQ(trace.operations.size(), 2U);
  EXPECT_EQ(trace.unknown_closes, 2U);
  EXPECT_EQ(trace.empty, 2U);
}

TEST(Traces, ATornLastLineIsLeftOut) {
  const Trace trace = parse_trace(std::string(pytorch_header) + "a,1,1000,0\na,2,10");
  EXPECT_EQ(trace.operations.size(), 1U);
  EXPECT_TRUE(trace.torn);
  EXPECT_TRUE(parse_trace(weir_header).operations.empty());
  EXPECT_REFUSED("# weir tra", "line 1", "no end");
  EXPECT_REFUSED("", "line 1", "no end");
}

TEST(Traces, RefusalsNameTheLineAndWhatIsWrong) {
  EXPECT_REFUSED("op,addr,size\n", "line 1", "\"op,addr,size\" begins no trace");
  EXPECT_REFUSED("op,addr,size,stream,more\n", "line 1", "begins no trace");
  EXPECT_REFUSED("\x1f\x8b\n", "line 1", "\"?\x8b\"");
  EXPECT_REFUSED("# weir trace 2\ta\tb\n", "line 1", "version is \"2\"");
  EXPECT_REFUSED("# weir trace 1\ta\n", "line 1", "2 fields instead of 3");
  EXPECT_REFUSED(pytorch_header + std::string("a,1,1,0\na,1,1\n"), "line 3", "3 fields instead of 4");
  EXPECT_REFUSED(pytorch_header + std::string("x,1,1,0\n"), "line 2", "op is \"x\"");
  EXPECT_REFUSED(pytorch_header + std::string("a,-1,1,0\n"), "line 2", "addr is \"-1\"");
  EXPECT_REFUSED(pytorch_header + std::string("a,1,1x,0\n"), "line 2", "size is \"1x\"");
  EXPECT_REFUSED(pytorch_header + std::string("a,1,18446744073709551616,0\n"), "line 2",
                 "a number below 2^64");
  EXPECT_REFUSED(pytorch_header + std::string("a,1,9223372036854775808,0\n"), "line 2",
                 "no size of a buffer");
  EXPECT_REFUSED(pytorch_header + std::string("a,1,4611686018427387903,0\na,2,4611686018427387903,0\n"),
                 "line 3", "more bytes");
  EXPECT_REFUSED(pytorch_header + std::string("a,1,1,0\n\na,1,2,0\n"), "line 4", "that line 2 allocated");
  EXPECT_REFUSED(weir_header + line("1", "shrink", "1", "1"), "line 2", "operation is \"shrink\"");
  EXPECT_REFUSED(weir_header + line("1", "use", "1", "1"), "line 2", "not allocated");
  EXPECT_REFUSED(weir_header + std::string("5\t1\td\tr\tallocate\t1\t1\t3\t1\tok\n"), "line 2",
                 "alignment 3");
  EXPECT_REFUSED(rmm_header + std::string("1,noon,allocate,0x1,1,0\n"), "line 2", "Time is \"noon\"");
  EXPECT_REFUSED(rmm_header + std::string("1,1:1:1,grow,0x1,1,0\n"), "line 2", "Action is \"grow\"");
}

}  // namespace
}  // namespace weir::replay
