// SPDX-License-Identifier: Apache-2.0
// Random programs over every memory of the machine, in two processes, against a model of bytes. Environment:
//   WEIR_RANDOM_PROGRAMS=n   how many (2000)
//   WEIR_RANDOM_SEED=n       the first one's seed (1)
//   WEIR_RANDOM_REPLAY=file  play that text instead
//   WEIR_RANDOM_TIMES=n      each so many times (1)

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "generator.hpp"
#include "runner.hpp"
#include "shrink.hpp"
#include "time_limits.hpp"
#include "watchdog.hpp"

namespace weir::test::random {
namespace {

constexpr std::uint64_t batch = 50;

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = getenv(name);
  return text && *text ? std::stoull(text) : otherwise;
}

std::uint64_t first_seed() { return number("WEIR_RANDOM_SEED", 1); }
std::uint64_t wanted() { return getenv("WEIR_RANDOM_REPLAY") ? 0 : number("WEIR_RANDOM_PROGRAMS", 2000); }

struct Seeds {
  std::uint64_t begin, end;
};

std::vector<Seeds> batches() {
  std::vector<Seeds> all;
  const auto end = first_seed() + wanted();
  for (auto seed = first_seed(); seed < end; seed += batch)
    all.push_back({seed, std::min(end, seed + batch)});
  return all;
}

std::chrono::seconds line_limit() {
  return std::max(test_limit() / 3, std::chrono::seconds{10});
}

/// A failed program costs seconds to shorten; the first ones say enough.
bool shorten_this_one() {
  static int failures = 0;
  return ++failures <= 2;
}

/// Plays a program again until it fails, which may depend on who is faster; as often as the first one needed,
/// and more.
class Again {
 public:
  /// Empty when it held every time.
  std::string play(const Program& program) {
    std::string wrong;
    for (std::uint64_t i = 0; i < times_ && wrong.empty(); ++i) wrong = runner_.play(program);
    return wrong;
  }
  void calibrate(const Program& program) {
    for (times_ = 1; times_ < most && runner_.play(program).empty(); ++times_) continue;
    times_ = times_ == 1 ? 1 : std::min(most, 3 * times_);
  }
  [[nodiscard]] std::uint64_t times() const { return times_; }

 private:
  static constexpr std::uint64_t most = 100;
  Runner runner_{std::chrono::seconds{4}};
  std::uint64_t times_ = 1;
};

std::string describe(const Program& program, const std::string& wrong) {
  Program shorter = program;
  std::string text = wrong, now;
  Again again;
  if (shorten_this_one()) {
    again.calibrate(program);
    shorter = shrink(program, [&](const Program& candidate) {
      const std::string said = again.play(candidate);
      if (!said.empty()) now = said;
      return !said.empty();
    });
  }
  text += "\n\nThe program, shortened from " + std::to_string(program.size()) + " to " +
          std::to_string(shorter.size()) + " lines:\n" + to_text(shorter);
  if (!now.empty()) text += "It says: " + now + '\n';
  return text + "With these lines in FILE: WEIR_RANDOM_REPLAY=FILE WEIR_RANDOM_TIMES=" +
         std::to_string(again.times()) + " weir_random_tests --gtest_filter='*Replay*'\n";
}

std::string play_often(Runner& runner, const Program& program) {
  std::string wrong;
  for (auto left = number("WEIR_RANDOM_TIMES", 1); left > 0 && wrong.empty(); --left) {
    wrong = runner.play(program);
  }
  return wrong;
}

class Programs : public testing::TestWithParam<Seeds> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Programs);
INSTANTIATE_TEST_SUITE_P(Random, Programs, testing::ValuesIn(batches()), [](const auto& chosen) {
  return "seeds_" + std::to_string(chosen.param.begin) + "_to_" + std::to_string(chosen.param.end - 1);
});

TEST_P(Programs, ReadWhatTheModelSays) {
  const std::vector<Memory> memories = few_memories();
  static Runner runner(line_limit());
  std::uint64_t played = 0;
  for (auto seed = GetParam().begin; seed < GetParam().end; ++seed) {
    Watchdog::note_progress();
    const Program program = generate(seed, memories);
    const std::string wrong = play_often(runner, program);
    ++played;
    if (wrong.empty()) continue;
    const std::string again = "WEIR_RANDOM_SEED=" + std::to_string(seed) +
                              " WEIR_RANDOM_PROGRAMS=1 weir_random_tests --gtest_filter='*Programs*'";
    // At once: shortening may meet a hang, and the watchdog with it.
    std::cout << "seed " << seed << ": " << wrong << "\nPlay it again (WEIR_RANDOM_TIMES=n: often): " << again
              << "\nShortening it …" << std::endl;
    ADD_FAILURE() << "seed " << seed << ": " << describe(program, wrong) << "The whole program: " << again;
    break;
  }
  RecordProperty("random_programs", std::to_string(played));
}

std::vector<std::string> files_to_replay() {
  const char* path = getenv("WEIR_RANDOM_REPLAY");
  return path ? std::vector<std::string>{path} : std::vector<std::string>{};
}

class Replay : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Replay);
INSTANTIATE_TEST_SUITE_P(Random, Replay, testing::ValuesIn(files_to_replay()),
                         [](const auto&) { return "file"; });

TEST_P(Replay, ReadsWhatTheModelSays) {
  std::ifstream file(GetParam());
  ASSERT_TRUE(file) << GetParam();
  std::ostringstream text;
  text << file.rdbuf();
  const Program program = parse(text.str());
  ASSERT_FALSE(program.empty()) << GetParam();
  Runner runner(line_limit());
  const std::string wrong = play_often(runner, program);
  if (!wrong.empty()) FAIL() << describe(program, wrong);
}

}  // namespace
}  // namespace weir::test::random
