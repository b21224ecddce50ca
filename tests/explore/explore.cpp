// SPDX-License-Identifier: Apache-2.0
#include "explore.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "engine.hpp"
#include "schedule.hpp"

namespace weir::explore {
namespace {

/// Run until a schedule fails or none is left. False when one failed.
bool run_all(Engine& engine, const Options& options, Result& result) {
  do {
    if (result.runs == options.runs) {
      result.fault = Fault::unfinished;
      result.message = "more than " + std::to_string(options.runs) + " runs";
      return false;
    }
    ++result.runs;
    if (!engine.run()) return false;
  } while (engine.advance());
  return true;
}

void describe(Engine& engine, bool passed, Result& result) {
  result.trace = engine.trace();
  result.schedule = to_text(engine.schedule());
  result.preemptions = engine.preemptions();
  if (passed && result.fault == Fault::none) return;
  if (passed) {
    const std::string before = std::string(to_string(result.fault)) + ": " + result.message;
    result.fault = Fault::unstable;
    result.message = "a schedule that failed does not fail again (" + before + ")";
    return;
  }
  result.fault = engine.fault();
  result.message = engine.message();
}

/// Another schedule may fail with fewer preemptions, and is easier to read.
void describe_simplest(Engine& found, const Story& story, Options options, Result& result) {
  result.fault = found.fault();
  result.message = found.message();
  if (result.fault == Fault::unstable) return;
  const unsigned most = options.preemptions;
  for (options.preemptions = 0; options.preemptions != most; ++options.preemptions) {
    Engine engine(options, story);
    Result simpler;
    if (run_all(engine, options, simpler) || simpler.fault == Fault::unfinished) continue;
    return describe(engine, engine.run_again(), result);
  }
  describe(found, found.run_again(), result);
}

Result replay(const Story& story, const Options& options, const char* text) {
  Result result;
  Engine engine(options, story);
  describe(engine, engine.replay(parse_schedule(text)), result);
  result.runs = 1;
  std::printf("%sexplore: %s%s%s\n", result.trace.c_str(), std::string(to_string(result.fault)).c_str(),
              result.message.empty() ? "" : ": ", result.message.c_str());
  return result;
}

/// Counts in the results of the test that runs.
void record(const Result& result) {
  static const testing::TestInfo* counted = nullptr;
  static std::uint64_t schedules = 0;
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  if (!test) return;
  if (counted != test) schedules = 0;
  counted = test;
  schedules += result.runs;
  testing::Test::RecordProperty("schedules", std::to_string(schedules));
}

/// The same with a line of how much it was.
Result search_aloud(const Story& story, const Options& options) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const auto begin = std::chrono::steady_clock::now();
  const Result result = search(story, options);
  const auto took = std::chrono::steady_clock::now() - begin;
  std::printf("explore: %llu schedules, %llu steps, %llu states, %.1f ms\n",
              static_cast<unsigned long long>(result.runs), static_cast<unsigned long long>(result.steps),
              static_cast<unsigned long long>(result.states), Milliseconds(took).count());
  return result;
}

std::string to_text(const Result& result) {
  std::ostringstream text;
  text << to_string(result.fault) << ": " << result.message << '\n';
  if (!result.schedule.empty()) text << result.trace << "explore: schedule " << result.schedule << '\n';
  return text.str();
}

}  // namespace

std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::none: return "no fault";
    case Fault::check: return "failed check";
    case Fault::race: return "data race";
    case Fault::lifetime: return "use after free";
    case Fault::deadlock: return "deadlock";
    case Fault::endless: return "endless run";
    case Fault::exception: return "exception";
    case Fault::leak: return "leak";
    case Fault::unstable: return "unstable program";
    case Fault::unfinished: break;
  }
  return "unfinished search";
}

Result search(const Story& story, const Options& options) {
  if (const char* const text = std::getenv("WEIR_EXPLORE_REPLAY")) return replay(story, options, text);
  Result result;
  Engine engine(options, story);
  const bool passed = run_all(engine, options, result);
  result.steps = engine.steps();
  result.states = engine.states();
  if (!passed && result.fault != Fault::unfinished) describe_simplest(engine, story, options, result);
  record(result);
  return result;
}

testing::AssertionResult holds(const Story& story, const Options& options) {
  auto wider = options;
  if (const char* const text = std::getenv("WEIR_EXPLORE_MORE")) {
    wider.preemptions = std::min(wider.preemptions + static_cast<unsigned>(std::stoul(text)), most_preemptions);
  }
  const Result result = search_aloud(story, wider);
  if (result.fault == Fault::none) return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_text(result);
}

testing::AssertionResult finds(Fault fault, const Story& story, const Options& options) {
  const Result result = search_aloud(story, options);
  if (result.fault != fault) {
    return testing::AssertionFailure() << "looked for: " << to_string(fault) << ", and found: " << to_text(result);
  }
  std::printf("explore: found, as expected: %s: %s\n", std::string(to_string(fault)).c_str(), result.message.c_str());
  if (!result.schedule.empty()) std::printf("explore: schedule %s\n", result.schedule.c_str());
  return testing::AssertionSuccess();
}

void require(bool good, const char* what, Where where) {
  if (good || !present) return;
  const std::string_view file = where.file;
  present->fail(Fault::check, std::string("not so: ") + what + ", at " + std::string(file.substr(file.rfind('/') + 1)) +
                                  ':' + std::to_string(where.line));
}

}  // namespace weir::explore
