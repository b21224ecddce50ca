// SPDX-License-Identifier: Apache-2.0
#include "loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/linger.hpp"
#include "copy/staging.hpp"
#include "fds.hpp"
#include "ipc/leases.hpp"
#include "sink.hpp"
#include "stream/releases.hpp"
#include "watchdog.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::test {
namespace {

// What an importer says in consequence, when the call failed on the exporter's stream.
constexpr std::string_view of_the_importer[] = {"the process that exported the buffer ended before its work on it",
                                                "the peer's stream was lost before its work on the buffer",
                                                "the peer ended before its work on the buffer was complete"};
constexpr std::size_t most_calls = 5000;  // of one scenario: more means that the loop does not end

struct Outcome {
  enum { fine, failed, lost, wrong } what = fine;
  std::array<char, 1024> text{};  // no string: memory fails, and is counted

  Outcome() = default;
  template <class... Words>
  explicit Outcome(decltype(fine) ended, const Words*... words) : what(ended) {
    std::size_t used = 0;
    for (const char* word : {words...}) {
      used += std::string_view(word).copy(text.data() + used, text.size() - 1 - used);
    }
  }
  friend std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
    return out << (outcome.what == fine ? "nothing" : outcome.text.data());
  }
};

Outcome outcome_of(const Scenario& scenario, const Stage& stage) {
  try {
    scenario.run(stage);
    return {};
  } catch (const Error& error) {
    return Outcome(error.code() == Errc::device_lost ? Outcome::lost : Outcome::failed, error.what());
  } catch (const std::bad_alloc& error) {  // OutOfMemory, too
    return Outcome(Outcome::failed, error.what());
  } catch (const WrongResult& result) {
    return Outcome(Outcome::wrong, "wrong result: ", result.what);
  } catch (const std::exception& error) {
    return Outcome(Outcome::wrong, "an exception that weir does not promise: ", error.what());
  }
}

// What a failed call may not change.
struct Leftovers {
  std::size_t threads = 0, fds = 0, mappings = 0, leases = 0, bytes = 0, buffers = 0, owners = 0;
  std::map<std::string, long> objects;
  friend bool operator==(const Leftovers&, const Leftovers&) = default;
};

std::ostream& operator<<(std::ostream& out, const Leftovers& left) {
  out << left.threads << " threads, " << left.fds << " fds, " << left.mappings << " mappings, " << left.leases
      << " leases, " << left.bytes << " bytes, " << left.buffers << " buffers, " << left.owners
      << " owners of the resources";
  for (const auto& [name, count] : left.objects) out << ", " << count << ' ' << name;
  return out;
}

std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:weir") != std::string::npos ? 1 : 0;
  return count;
}

std::vector<std::string> names_of_threads() {
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::getline(std::ifstream(task.path() / "comm"), names.emplace_back());
  }
  return names;
}

// The library's threads. Drivers have threads, too, and start some of them late.
std::size_t threads() {
  const auto named = [](const std::string& name) { return name.starts_with("weir "); };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(names_of_threads(), named));
  return count - (count != 0 && detail::granted_leases() != 0 ? 1 : 0);  // which one watches
}

std::string describe_threads() {
  std::string all;
  for (const std::string& name : names_of_threads()) all += (all.empty() ? "threads: " : ", ") + name;
  return all;
}

Leftovers leftovers(const Stage& stage, Injector& injector) {
  const auto resources = {std::cref(stage.plain), std::cref(stage.readable), std::cref(stage.shareable)};
  for (const ResourcePtr& resource : resources) {
    if (resource) (void)resource->trim(0);  // spare blocks: there may have been one more at a time
  }
  const std::size_t fds = open_fds();  // before the rest: it settles leases
  Leftovers left{threads(), fds, shared_mappings(), detail::granted_leases(), 0, 0, 0, injector.alive()};
  for (const ResourcePtr& resource : resources) {
    if (!resource) continue;
    resource->trim(0);  // what the driver keeps for later differs
    left.bytes += resource->stats().reserved;
    left.buffers += resource->stats().live_buffers;
    left.owners += static_cast<std::size_t>(resource.use_count());
  }
  return left;
}

class Loop {
 public:
  Loop(const Scenario& scenario, const Stage& stage, Injector& injector)
      : scenario_(scenario), stage_(stage), injector_(injector) {}

  void run() {
    const ShortLinger many_threads_end;
    for (int warm_up = 0; warm_up < 2; ++warm_up) run_without_failure("before anything failed");
    (void)open_fds();  // the first time, it makes a pool
    injector_.settle();
    before_ = leftovers(stage_, injector_);
    before_.threads = 0;  // they end by themselves a moment after their work
    check_nothing_left("before anything failed");
    bool more = true;
    for (nth_ = 1; more && !testing::Test::HasFailure(); ++nth_) {
      ASSERT_LT(nth_, most_calls);
      std::size_t codes = 1;
      for (std::size_t code = 0; more && code < codes; ++code) more = fail_once(code, codes);
    }
    testing::Test::RecordProperty("injected_failures", static_cast<int>(injected_));
    testing::Test::RecordProperty("harmless_failures", static_cast<int>(harmless_));
    testing::Test::RecordProperty("reported_leaks", static_cast<int>(leaks_));
  }

 private:
  // What it leaves behind is found by the next check: settling takes longer than everything else.
  void run_without_failure(const char* when) {
    injector_.arm(0, 0);  // injectors count what is made while they are armed
    const auto outcome = outcome_of(scenario_, stage_);
    (void)injector_.disarm();
    EXPECT_EQ(outcome.what, Outcome::fine) << when << ": " << outcome;
    for (const Reported& report : take_reports())
      ADD_FAILURE() << when << ", reported by " << report.where << ": " << report.message;
  }

  /// False when the scenario makes fewer calls.
  bool fail_once(std::size_t code, std::size_t& codes) {
    Watchdog::note_progress();
    injector_.arm(nth_, code);
    const Outcome outcome = outcome_of(scenario_, stage_);
    injector_.settle();
    const auto hit = injector_.disarm();
    if (hit) {
      EXPECT_TRUE(threads_end()) << describe_threads();
    }
    const auto reports = take_reports();
    if (!hit) {
      EXPECT_EQ(outcome.what, Outcome::fine) << "although nothing failed: " << outcome;
      for (const Reported& report : reports) ADD_FAILURE() << "although nothing failed, reported: " << report.message;
      check_nothing_left("at the end");
      return false;
    }
    codes = hit->codes;
    ++injected_;
    SCOPED_TRACE(std::string(scenario_.name) + ", call " + std::to_string(nth_) + ", " + hit->call + ": " + hit->code);
    const auto say = [&](std::string_view words) {
      return std::ranges::any_of(reports, [&](const Reported& report) {
        return report.where.find(words) != std::string::npos || report.message.find(words) != std::string::npos;
      });
    };
    const bool leaked = injector_.leaks(*hit) && say("leaked");
    leaks_ += leaked ? 1 : 0;
    check_told(*hit, outcome, reports);
    EXPECT_TRUE(leaked || outcome.what != Outcome::wrong) << outcome;
    // What waits for the next one ends with it, and counts as left if it does not.
    if (say("ends with what the next one owns")) run_without_failure("with the next one");
    if (leaked || injector_.renewed_after(*hit)) {
      accept_what_is_left();
    } else {
      check_nothing_left("after the failure (or the scenario without failure before it)");
    }
    run_without_failure("afterwards");
    return true;
  }

  void check_told(const Injected& hit, const Outcome& outcome, const std::vector<Reported>& reports) {
    const std::string& wanted = hit.names.empty() ? hit.call : hit.names;
    const auto names = [&](std::string_view text) {
      std::istringstream all(wanted);
      for (std::string one; std::getline(all, one, '|');) {
        if (text.find(one) != std::string::npos) return true;
      }
      return false;
    };
    bool told = outcome.what != Outcome::fine && names(outcome.text.data());
    for (const Reported& report : reports) {
      const bool named = names(report.where) || names(report.message);
      told = told || named;
      const bool follows = std::ranges::any_of(
          of_the_importer, [&](auto text) { return report.message.find(text) != std::string::npos; });
      EXPECT_TRUE(named || follows) << "reported by " << report.where << ": " << report.message;
    }
    if (told) return;
    if (outcome.what == Outcome::fine && injector_.harmless(hit)) {
      ++harmless_;
      return;
    }
    ADD_FAILURE() << "nothing names " << wanted << "; thrown: " << outcome << "; reports: " << reports.size();
  }

  void accept_what_is_left() {
    EXPECT_TRUE(threads_end()) << describe_threads();
    before_ = leftovers(stage_, injector_);
    before_.threads = 0;
  }

  void check_nothing_left(const char* when) {
    auto now = before_;
    bool again = false;
    const bool same = eventually([&] {
      if (std::exchange(again, true)) injector_.settle();  // a thread may have ended something since
      if (before_.threads == 0 && threads() != 0) return false;  // the rest takes longer to find out
      now = leftovers(stage_, injector_);
      return now == before_;
    });
    EXPECT_TRUE(same) << when << " there are " << now << "; before there were " << before_ << '\n'
                      << describe_threads() << '\n'
                      << describe_fds();
  }

  const Scenario& scenario_;
  const Stage& stage_;
  Injector& injector_;
  Leftovers before_;
  std::size_t nth_ = 0, injected_ = 0, harmless_ = 0, leaks_ = 0;
};

}  // namespace

void fail_every_call(const Scenario& scenario, const Stage& stage, Injector& injector) {
  if (const auto lack = scenario.lack(stage)) GTEST_SKIP() << why(lack->lasting, lack->reason);
  Loop(scenario, stage, injector).run();
}

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

void settle_core(const Device& device) {
  for (int round = 0; round < 2; ++round) {  // what staging memory gives back goes through the reclaimer, too
    for (const Device& each : {device, host_device()}) {
      detail::forget_staging(each.state());
      detail::drain_releases(each.state());
    }
  }
}

ShortLinger::ShortLinger() : before_(detail::linger.exchange(std::chrono::milliseconds{1})) {}
ShortLinger::~ShortLinger() { detail::linger = before_; }

bool threads_end() {
  return eventually([] { return threads() == 0; });
}

bool eventually(bool (*holds)(const void*), const void* context) {
  constexpr std::chrono::seconds certainly_wrong{30};
  const auto deadline = std::chrono::steady_clock::now() + certainly_wrong;
  while (!holds(context)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
  return true;
}

}  // namespace weir::test
