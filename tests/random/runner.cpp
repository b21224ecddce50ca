// SPDX-License-Identifier: Apache-2.0
#include "runner.hpp"

#include "link.hpp"

namespace weir::test::random {
namespace {

std::string describe_end(int code) {
  if (code < 0) return "the process ended by signal " + std::to_string(-code) + "; its last words are above";
  return "the process ended with exit code " + std::to_string(code);
}

}  // namespace

std::string Runner::play(const Program& program) {
  if (!child_) {
    child_.emplace(WEIR_CHILD_DIR "/random_child",
                   std::vector<std::string>{"play", std::to_string(limit_.count())});
  }
  write_text(child_->socket(), to_text(program));
  std::string said = read_text(child_->socket());
  if (said == "held") return {};
  const int code = child_->wait();
  child_.reset();
  return said.empty() ? describe_end(code) : said;
}

}  // namespace weir::test::random
