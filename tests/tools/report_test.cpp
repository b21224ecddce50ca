// SPDX-License-Identifier: Apache-2.0
// What is printed of a replay: each figure under its own name, in words and as JSON.

#include <gtest/gtest.h>

#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "replay/read_trace.hpp"
#include "replay/report.hpp"

namespace weir::replay {
namespace {

/// A replay whose figures all differ: a thousand allocations that took 1 to 999 ns, and 5 µs.
class Reports : public testing::Test {
 protected:
  Reports() {
    std::string text = "op,addr,size,stream\n";
    for (int i = 1; i <= 1000; ++i) text += "a," + std::to_string(i) + ",1000,0\n";
    trace_ = parse_trace(text);
    Pass pass;
    pass.times.resize(1000);
    std::iota(pass.times.begin(), pass.times.end(), 1);
    pass.times.back() = 5000;
    pass.peak_reserved = 2000000;
    pass.driver_allocations = 11;
    pass.grown = 12;
    pass.given_back = 13;
    pass.waits = 14;
    pass.failures = 15;
    replay_.trace = &trace_;
    replay_.passes.push_back(pass);
  }

  /// Whether these words are in the text, each behind the one before.
  static testing::AssertionResult says(const std::string& text, const std::vector<std::string>& words) {
    std::size_t at = 0;
    for (const std::string& word : words) {
      const auto found = text.find(word, at);
      if (found == std::string::npos)
        return testing::AssertionFailure() << "no " << word << " where it should be in " << text;
      at = found + word.size();
    }
    return testing::AssertionSuccess();
  }

  Trace trace_;
  Replay replay_;
};

TEST_F(Reports, NameEachFigureAsJson) {
  EXPECT_TRUE(
      says(json_of(replay_), {"\"operation\": \"allocate\", \"part\": \"all\", \"count\": 1000, \"p50_ns\": 500, "
                              "\"p99_ns\": 990, \"p99_9_ns\": 999, \"max_ns\": 5000, \"total_ns\": 504500",
                              "\"peak_reserved\": 2000000, \"ratio\": 2",
                              "\"driver_allocations\": 11, \"grown\": 12, \"given_back\": 13, \"waits\": 14, "
                              "\"failures\": 15"}));
}

TEST_F(Reports, HaveEachFigureInItsColumn) {
  const std::string text = text_of(replay_);
  EXPECT_TRUE(says(text, {"part", "count", "mean", "p50", "p99", "p99.9", "max\n"}));
  EXPECT_TRUE(says(text, {"allocate  first half", "500", "250 ns", "250 ns", "495 ns", "500 ns", "500 ns\n"}));
  EXPECT_TRUE(says(text, {"all ", "1 000", "504 ns", "500 ns", "990 ns", "999 ns", short_time(5000) + '\n'}));
}

TEST_F(Reports, SayWhatThePoolDid) {
  EXPECT_TRUE(
      says(text_of(replay_), {"11 allocations; the pool grew 12 times, gave back 13 segments, let a stream wait "
                              "14 times",
                              "failures  15"}));
}

}  // namespace
}  // namespace weir::replay
