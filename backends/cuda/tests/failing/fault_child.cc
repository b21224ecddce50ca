// SPDX-License-Identifier: Apache-2.0
// cuda_fault_child cold|few|fault <scenario> [first call]: one process for each call that fails, because what it does
// lasts.
//   cold    the n-th call of the process fails; then the scenario works, and so does the host, whatever it was
//   few     the same with every third call and its first error, for drivers that take half a second to start
//   fault   the device faults at the n-th call of a run; then it is lost for good, and everything can still be ended
// Forks before any driver is loaded. Says "failed <what>" for each that goes wrong, and at last "done <calls tried>".
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "driver.hpp"
#include "loop.hpp"
#include "modelled_driver.hpp"
#include "native_scenarios.hpp"
#include "sink.hpp"
#include "spawn.hpp"
#include "weir/buffer.hpp"
#include "weir/cuda.hpp"
#include "weir/error.hpp"

namespace weir::cuda_test {
namespace {

constexpr int ok = 0, wrong = 1, not_reached = 2;
constexpr unsigned watchdog_seconds = 60;
constexpr std::size_t most_calls = 5000;

// What a run came to: nothing, or what was thrown.
struct Outcome {
  bool thrown = false, lost = false, sane = true;
  std::string text;
};

Outcome run(const test::Scenario& scenario, const Device& device) {
  try {
    const test::Stage stage(device);
    if (!scenario.lack(stage)) scenario.run(stage);
    return {};
  } catch (const Error& error) {
    return {true, error.code() == Errc::device_lost, true, error.what()};
  } catch (const std::bad_alloc& error) {
    return {true, false, true, error.what()};
  } catch (const test::WrongResult& result) {
    return {true, false, false, std::string("wrong result: ") + result.what};
  } catch (const std::exception& error) {
    return {true, false, false, std::string("an exception that weir does not promise: ") + error.what()};
  }
}

class Judge {
 public:
  explicit Judge(std::string what) : what_(std::move(what)) {}
  void expect(bool holds, const std::string& why) {
    if (!holds && verdict_ != wrong) test::write_line(test::Child::socket_in_child, "failed " + what_ + ": " + why);
    if (!holds) verdict_ = wrong;
  }
  void name(const std::string& what) { what_ += what; }
  [[nodiscard]] int verdict() {
    const std::string broken = test::take_violations();
    expect(broken.empty(), "the modelled driver saw " + broken.substr(0, broken.find('\n')));
    return verdict_;
  }

 private:
  std::string what_;
  int verdict_ = ok;
};

std::string all_reports() {
  std::string text;
  for (const auto& report : test::take_reports()) text += report.where + ": " + report.message + "; ";
  return text;
}

bool is_native(const test::Scenario& scenario) {
  const auto all = native_scenarios();
  return std::any_of(all.begin(), all.end(), [&](const auto& each) { return &each == &scenario; });
}

bool names(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::optional<Device> first_gpu(std::string& reason) {
  for (const BackendInfo& backend : backends()) {
    if (backend.name != "cuda") continue;
    reason = backend.unavailable_because;
    if (!backend.devices.empty()) return backend.devices.front();
  }
  return std::nullopt;
}

int cold(const test::Scenario& scenario, std::size_t nth, std::size_t code, std::size_t& codes) {
  const test::ShortLinger threads_end_soon;
  Judge judge(std::string(scenario.name) + ", first call " + std::to_string(nth));
  setenv("FAILING_CUDA_CALL", (std::to_string(nth) + "," + std::to_string(code)).c_str(), 1);
  std::string told;
  const auto gpu = first_gpu(told);
  Outcome first;
  if (gpu) {
    first = run(scenario, *gpu);
  }
  judge.expect(first.sane, first.text);
  FailingCuda injector;
  injector.settle();
  const auto hit = injector.disarm();
  if (!hit) {
    judge.expect(!first.thrown, "although nothing failed: " + first.text);
    const int verdict = judge.verdict();
    return verdict == ok ? not_reached : verdict;
  }
  judge.expect(test::threads_end(), "the library's threads do not end");
  codes = hit->codes;
  judge.name(", " + hit->call + ": " + hit->code);
  told += first.text + all_reports();
  const bool no_gpu = hit->call == "cuInit" && hit->code == "CUDA_ERROR_NO_DEVICE" && names(told, "no GPU");
  const bool quiet = told.empty() && injector.harmless(*hit);
  judge.expect(names(told, hit->call) || no_gpu || quiet, "nothing names it: \"" + told + '"');
  const auto again = gpu || !is_native(scenario) ? run(scenario, gpu ? *gpu : host_device()) : Outcome{};
  judge.expect(!again.thrown || injector.renewed_after(*hit), "afterwards: " + again.text);
  const auto late = all_reports();
  judge.expect(late.empty(), "afterwards, reported: " + late);
  return judge.verdict();
}

int fault(const test::Scenario& scenario, std::size_t nth) {
  const test::ShortLinger threads_end_soon;
  Judge judge(std::string(scenario.name) + ", a fault at call " + std::to_string(nth));
  std::string reason;
  const Device gpu = first_gpu(reason).value();
  if (scenario.lack(test::Stage(gpu))) return not_reached;
  const auto clean = run(scenario, gpu);
  judge.expect(!clean.thrown, "although nothing failed: " + clean.text);
  FailingCuda injector;
  injector.settle();
  injector.arm_fault(nth);
  const auto first = run(scenario, gpu);
  injector.settle();
  const auto hit = injector.disarm();
  if (!hit) return judge.verdict() == ok ? not_reached : wrong;
  judge.expect(test::threads_end(), "the library's threads do not end");
  judge.name(", " + hit->call);
  judge.expect(first.sane, first.text);
  const std::string told = first.text + all_reports();
  judge.expect(told.empty() || names(told, "CUDA_ERROR_ILLEGAL_ADDRESS"), "the fault is not named: " + told);
  for (int i = 0; i < 2; ++i) {
    const auto after = run(scenario, gpu);
    const bool without_driver = std::string(scenario.name) == "allocate_nothing";
    judge.expect((after.thrown && after.lost) || without_driver, "not lost for good: " + after.text);
  }
  injector.settle();
  (void)test::take_reports();
  return judge.verdict();
}

/// `work` in a process of its own, ended by the alarm when it hangs.
class Try {
 public:
  template <class Work>
  explicit Try(const Work& work) {
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    child_ = fork();
    if (child_ == 0) {
      alarm(watchdog_seconds);
      setenv("WEIR_VULKAN_LIBRARY", "/nonexistent", 1);  // quicker, and not what this is about
      test::install_sink();
      std::size_t codes = 1;
      const int verdict = work(codes);
      if (write(ends[1], &codes, sizeof codes) != sizeof codes) _exit(wrong);
      exit(verdict);  // with the end of all static objects
    }
    close(ends[1]);
    from_child_ = ends[0];
  }
  /// Its exit code; and how many codes there are for the call that failed.
  int wait(std::size_t& codes) const {
    int status = 0;
    waitpid(child_, &status, 0);
    if (read(from_child_, &codes, sizeof codes) != sizeof codes) codes = 1;
    close(from_child_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t child_ = -1;
  int from_child_ = -1;
};

class Loop {
 public:
  Loop(std::string mode, const test::Scenario& scenario) : mode_(std::move(mode)), scenario_(scenario) {}

  int run(std::size_t first) {
    bool more = true;
    const std::size_t step = mode_ == "few" ? 3 : 1;
    for (std::size_t nth = first; more && nth < most_calls; nth += at_once * step) {
      std::vector<Call> calls;
      for (std::size_t i = 0; i < at_once; ++i) calls.push_back({nth + i * step, 0});
      std::vector<Call> rest;
      for (const auto& [call, codes] : try_all(calls)) {
        if (codes == 0) more = false;
        for (std::size_t code = 1; code < codes && mode_ != "few"; ++code) rest.push_back({call.nth, code});
      }
      for (; !rest.empty();
           rest.erase(rest.begin(), rest.begin() + static_cast<long>(std::min(at_once, rest.size())))) {
        (void)try_all({rest.begin(), rest.begin() + static_cast<long>(std::min(at_once, rest.size()))});
      }
    }
    test::write_line(test::Child::socket_in_child, "done " + std::to_string(tried_));
    return sound_ ? 0 : 1;
  }

 private:
  struct Call {
    std::size_t nth, code;
  };
  static constexpr std::size_t at_once = 6;  // they wait more than they work

  /// Each with how many codes it has, 0 when fewer calls were made.
  std::vector<std::pair<Call, std::size_t>> try_all(const std::vector<Call>& calls) {
    test::write_line(test::Child::socket_in_child, "trying");
    std::vector<Try> running;
    for (const Call& call : calls) {
      running.emplace_back([&](std::size_t& codes) {
        return mode_ == "fault" ? fault(scenario_, call.nth) : cold(scenario_, call.nth, call.code, codes);
      });
    }
    std::vector<std::pair<Call, std::size_t>> ended;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      std::size_t codes = 1;
      const int verdict = running[i].wait(codes);
      if (verdict != ok && verdict != wrong && verdict != not_reached) {
        test::write_line(test::Child::socket_in_child, "failed " + std::string(scenario_.name) + ", " + mode_ +
                                                           " call " + std::to_string(calls[i].nth) +
                                                           ": the process ended with " + std::to_string(verdict));
      }
      sound_ = sound_ && (verdict == ok || verdict == not_reached);
      tried_ += verdict == not_reached ? 0 : 1;
      ended.emplace_back(calls[i], verdict == not_reached ? 0 : codes);
    }
    return ended;
  }

  std::string mode_;
  const test::Scenario& scenario_;
  std::size_t tried_ = 0;
  bool sound_ = true;
};

}  // namespace
}  // namespace weir::cuda_test

int main(int argc, char** argv) {
  const auto* scenario = argc >= 3 ? weir::cuda_test::scenario_named(argv[2]) : nullptr;
  return scenario ? weir::cuda_test::Loop(argv[1], *scenario).run(argc > 3 ? std::stoul(argv[3]) : 1) : 2;
}
