// SPDX-License-Identifier: Apache-2.0
// What a device does to a process that goes wrong, in processes of their own: a kernel that traps, and calls whose
// answer only hardware knows.
#include <cstdio>
#include <ostream>
#include <string>

#include "native.hpp"
#include "spawn.hpp"

namespace weir::cuda_test {
namespace {

class FaultOfAKernel : public CudaTest {};

// On a real device, or as the model has it.
TEST_F(FaultOfAKernel, EverythingComesBackLostAndTheProcessEnds) {
  test::Child child(WEIR_CHILD_DIR "/cuda_trap_child", {});
  std::string line = child.line();
  for (; !line.empty() && line != "done"; line = child.line()) {
    std::printf("  %s\n", line.c_str());
    if (line.rfind("failed ", 0) == 0) ADD_FAILURE() << line.substr(7);
    if (line.rfind("answer ", 0) == 0) {
      const auto space = line.rfind(' ');
      RecordProperty(line.substr(7, space - 7), line.substr(space + 1));
    }
  }
  EXPECT_EQ(line, "done");
  EXPECT_EQ(child.wait(), 0) << "the process does not end as others do";
}

/// A stream of one context or device, memory of another.
struct Question {
  const char *operation, *where, *kind;
  const char* expected;  ///< what we think, and do not rely on: a side stream is right whatever the answer is
};
void PrintTo(const Question& asked, std::ostream* out) {
  *out << asked.operation << ' ' << asked.kind << " memory of another " << asked.where;
}

class DriverQuestions : public CudaTest, public testing::WithParamInterface<Question> {};
constexpr Question questions[] = {
    {"fill", "context", "device", "right"},   {"fill", "context", "async", "right"},
    {"fill", "context", "vmm", "right"},      {"copy", "context", "device", "right"},
    {"copy", "context", "async", "right"},    {"copy", "context", "vmm", "right"},
    {"upload", "context", "vmm", "right"},    {"fill", "device", "device", "refused 1"},
    {"fill", "device", "async", "refused 1"}, {"fill", "device", "vmm", "refused 1"},
    {"copy", "device", "device", "right"},    {"copy", "device", "async", "right"},
    {"copy", "device", "vmm", "right"},       {"upload", "device", "device", "right"},
    {"upload", "device", "async", "right"},   {"upload", "device", "vmm", "right"},
};
INSTANTIATE_TEST_SUITE_P(Every, DriverQuestions, testing::ValuesIn(questions), [](const auto& each) {
  return std::string(each.param.operation) + "_" + each.param.kind + "_of_another_" + each.param.where;
});

// Copies on streams of another context of the same device are what the backend relies on.
TEST_P(DriverQuestions, Answered) {
  const Question& asked = GetParam();
  const bool elsewhere = std::string(asked.where) == "device";
  if (elsewhere && (devices().size() < 2 || devices()[1].backend() != "cuda")) GTEST_SKIP() << "needs two CUDA devices";
  test::Child child(WEIR_CHILD_DIR "/cuda_question_child", {asked.operation, asked.where, asked.kind});
  const std::string answer = child.line();
  std::printf("  %s, expected: %s\n", answer.c_str(), asked.expected);
  RecordProperty("answer", answer);
  RecordProperty("expected", asked.expected);
  EXPECT_FALSE(answer.empty()) << "it ended before it said anything";
  EXPECT_NE(answer.rfind("failed ", 0), 0U) << answer;
  if (!elsewhere && std::string(asked.operation) != "fill") {
    EXPECT_EQ(answer, "right");
  }
  (void)child.wait();
}

}  // namespace
}  // namespace weir::cuda_test
