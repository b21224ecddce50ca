// SPDX-License-Identifier: Apache-2.0
// Random programs, whose results the explorer must find exactly: those of a machine that is written down again here, as
// a search over its states, and those that it finds itself when it leaves no schedule out.

#include <array>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "explore.hpp"
#include "heap.hpp"
#include "sanitizers.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

constexpr std::size_t words = 2;
constexpr int programs = explore::under_sanitizer ? 5 : 40;

struct Instruction {
  enum Kind { load, store, store_seq_cst, exchange, add_if_zero, light, heavy, guarded, await, add_weakly, kinds } kind;
  std::size_t word;
  int value;
};
using Thread = std::vector<Instruction>;
using Program = std::vector<Thread>;
using Outcomes = std::set<std::vector<int>>;

/// The kinds from `most` on are left out.
Program random_program(std::mt19937& random, Instruction::Kind most) {
  Program program(2 + random() % 2);
  const std::size_t longest = program.size() == 2 ? 5 : 3;
  for (std::size_t i = 0; i < program.size(); ++i) {
    program[i].resize(1 + random() % longest);
    for (Instruction& one : program[i]) {
      // Half of all are ordinary stores and loads.
      const auto kind = random() % 2 ? random() % 2 : random() % most;
      one = {static_cast<Instruction::Kind>(kind), random() % words, static_cast<int>(1 + random() % 3)};
    }
  }
  return program;
}

// ---- the machine again ----------------------------------------------------------------------------------------------

struct State {
  struct Core {
    std::size_t next = 0;
    std::vector<std::pair<std::size_t, int>> buffer;
    std::size_t lit = 0;  // stores in front of its last light barrier
    // Within a heavy barrier: what each other core must still write.
    std::vector<std::size_t> owed;
    auto operator<=>(const Core&) const = default;
  };
  std::vector<Core> cores;
  std::array<int, words> memory{};
  std::vector<std::vector<int>> read;
  auto operator<=>(const State&) const = default;
};

class Reference {
 public:
  explicit Reference(const Program& program) : program_(program) {
    State begin;
    begin.cores.resize(program.size());
    begin.read.resize(program.size());
    visit(begin);
  }
  Outcomes outcomes;

 private:
  static void write(State& state, std::size_t core) {
    auto& one = state.cores[core];
    state.memory.at(one.buffer.front().first) = one.buffer.front().second;
    one.buffer.erase(one.buffer.begin());
    if (one.lit != 0) --one.lit;
    for (auto& other : state.cores) {
      if (!other.owed.empty() && other.owed[core] != 0) --other.owed[core];
    }
  }
  static void write_all(State& state, std::size_t core) {
    while (!state.cores[core].buffer.empty()) write(state, core);
  }

  void visit(const State& state) {
    if (!seen_.insert(state).second) return;
    bool over = true;
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (!state.cores[i].buffer.empty()) {
        over = false;
        State next = state;
        write(next, i);
        visit(next);
      }
      if (state.cores[i].next == program_[i].size()) continue;
      over = false;
      step(state, i);
    }
    if (!over) return;
    std::vector<int> outcome(state.memory.begin(), state.memory.end());
    for (const auto& values : state.read) outcome.insert(outcome.end(), values.begin(), values.end());
    outcomes.insert(outcome);
  }

  void step(State state, std::size_t i) {
    auto& core = state.cores[i];
    if (!core.owed.empty()) {  // waits for the others' buffers
      for (const auto owed : core.owed) {
        if (owed != 0) return;
      }
      core.owed.clear();
      ++core.next;
      return visit(state);
    }
    const Instruction& one = program_[i][core.next++];
    switch (one.kind) {
      case Instruction::load: {
        int value = state.memory.at(one.word);
        for (const auto& [word, stored] : core.buffer) {
          if (word == one.word) value = stored;
        }
        state.read[i].push_back(value);
        break;
      }
      case Instruction::store: core.buffer.emplace_back(one.word, one.value); break;
      case Instruction::store_seq_cst:
        write_all(state, i);
        state.memory.at(one.word) = one.value;
        break;
      case Instruction::exchange:
        write_all(state, i);
        state.read[i].push_back(std::exchange(state.memory.at(one.word), one.value));
        break;
      case Instruction::add_if_zero:
        write_all(state, i);
        state.read[i].push_back(state.memory.at(one.word));
        if (state.memory.at(one.word) == 0) state.memory.at(one.word) = one.value;
        break;
      case Instruction::light: core.lit = core.buffer.size(); break;
      case Instruction::heavy:
        write_all(state, i);
        --core.next;
        for (const auto& other : state.cores) core.owed.push_back(&other == &core ? 0 : other.lit);
        break;
      default: break;
    }
    visit(state);
  }

  const Program& program_;
  std::set<State> seen_;
};

// ---- and explored ---------------------------------------------------------------------------------------------------

struct Shared {
  std::array<sync::Atomic<int>, words> memory{};
  sync::Mutex mutex;
  sync::Plain<int> order{0};
  std::array<std::vector<int>, explore::most_threads> read;

  void run(const Thread& thread, std::size_t i) {
    for (const Instruction& one : thread) {
      auto& word = memory.at(one.word);
      int zero = 0;
      switch (one.kind) {
        case Instruction::load: read.at(i).push_back(word.load(std::memory_order_acquire)); break;
        case Instruction::store: word.store(one.value, std::memory_order_release); break;
        case Instruction::store_seq_cst: word.store(one.value); break;
        case Instruction::exchange: read.at(i).push_back(word.exchange(one.value, std::memory_order_relaxed)); break;
        case Instruction::add_if_zero:
          word.compare_exchange_strong(zero, one.value);
          read.at(i).push_back(zero);
          break;
        case Instruction::light: sync::light_barrier(); break;
        case Instruction::heavy: sync::heavy_barrier(); break;
        case Instruction::guarded: {
          const std::scoped_lock lock(mutex);
          order = 4 * order + static_cast<int>(i);
          word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          break;
        }
        case Instruction::await:
          for (unsigned round = 0; word.load(std::memory_order_relaxed) == 0; ++round) sync::pause(round);
          break;
        case Instruction::add_weakly:
          word.compare_exchange_weak(zero, one.value);
          read.at(i).push_back(zero);
          break;
        case Instruction::kinds: break;
      }
    }
  }
};

struct Explored {
  Outcomes outcomes;
  explore::Fault fault;
};

Explored explored(const Program& program, const explore::Options& options) {
  Outcomes outcomes;
  const auto result = explore::search(
      [&](explore::Scene& scene) {
        auto& shared = scene.make<Shared>();
        for (std::size_t i = 0; i < program.size(); ++i) scene.thread([&, i] { shared.run(program[i], i); });
        scene.finally([&] {
          if (explore::present->is_settled()) return;  // others found that already, or merging is wrong
          const explore::UntrackedHeap outside;
          std::vector<int> outcome(shared.memory.begin(), shared.memory.end());
          if (shared.order != 0) outcome.push_back(shared.order);
          for (const auto& values : shared.read) outcome.insert(outcome.end(), values.begin(), values.end());
          outcomes.insert(outcome);
        });
      },
      options);
  return {outcomes, result.fault};
}

std::string to_text(const Program& program) {
  std::string text;
  for (const Thread& thread : program) {
    for (const Instruction& one : thread) {
      text +=
          std::to_string(one.kind) + " word " + std::to_string(one.word) + " value " + std::to_string(one.value) + "; ";
    }
    text += '\n';
  }
  return text;
}

TEST(Reference, RandomProgramsHaveTheResultsOfTheMachine) {
  std::mt19937 random(1);
  for (int i = 0; i < 10 * programs; ++i) {
    const Program program = random_program(random, Instruction::guarded);
    const Reference reference(program);
    const auto found = explored(program, {.preemptions = 14, .old_reads = 0});
    ASSERT_EQ(found.fault, explore::Fault::none) << to_text(program);
    ASSERT_EQ(found.outcomes, reference.outcomes) << to_text(program);
  }
}

/// A search that goes on only once from what it takes for one state, and moves stores to memory only where somebody
/// would notice, against one that tries everything.
TEST(Reference, ReducedSearchesFindWhatCompleteOnesFind) {
  std::mt19937 random(2);
  int deadlocks = 0;
  for (int i = 0; i < 5 * programs; ++i) {
    const Program program = random_program(random, Instruction::kinds);
    const std::size_t instructions = std::accumulate(program.begin(), program.end(), std::size_t{0},
                                                     [](std::size_t sum, const Thread& t) { return sum + t.size(); });
    for (unsigned preemptions = 0; preemptions <= (instructions < 6 ? 3U : 1U); ++preemptions) {
      const unsigned old_reads = static_cast<unsigned>(i) % 3;
      const auto all = explored(program, {.preemptions = preemptions, .old_reads = old_reads, .merge = false});
      const auto reduced = explored(program, {.preemptions = preemptions, .old_reads = old_reads});
      ASSERT_EQ(reduced.fault, all.fault) << to_text(program);
      if (all.fault == explore::Fault::none) {
        ASSERT_EQ(reduced.outcomes, all.outcomes) << to_text(program);
      } else {
        ASSERT_EQ(all.fault, explore::Fault::deadlock) << to_text(program);
        ++deadlocks;
      }
    }
  }
  EXPECT_GT(deadlocks, 0);
  EXPECT_LT(deadlocks, 6 * programs);
}

}  // namespace
}  // namespace weir::test
