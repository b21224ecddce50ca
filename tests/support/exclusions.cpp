// SPDX-License-Identifier: Apache-2.0
#include "exclusions.hpp"

#include <algorithm>
#include <span>

namespace weir::test {
namespace {

// {"*/Sharing.*/vulkan_*_upload_exportable", Lasting::this_machine, "why"},
constexpr std::span<const Exclusion> table{};

constexpr std::string_view word(Lasting lasting) {
  switch (lasting) {
    case Lasting::permanent: return "permanent: ";
    case Lasting::not_built: return "not built: ";
    case Lasting::this_machine: return "this machine: ";
  }
  return {};
}

std::vector<LeftOut>& noted() {
  static std::vector<LeftOut> all;
  return all;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return matches(pattern.substr(1), text) || (!text.empty() && matches(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) && matches(pattern.substr(1), text.substr(1));
}

const Exclusion* excluded(std::string_view test) {
  for (const Exclusion& line : table) {
    if (matches(line.pattern, test)) return &line;
  }
  return nullptr;
}

std::string why(Lasting lasting, std::string_view reason) { return std::string(word(lasting)) + std::string(reason); }

bool says_why(std::string_view text) {
  return text.starts_with(word(Lasting::permanent)) || text.starts_with(word(Lasting::not_built)) ||
         text.starts_with(word(Lasting::this_machine));
}

void note_left_out(std::string_view suite, std::string_view memory, Lasting lasting, std::string_view reason) {
  const std::string text = why(lasting, reason);
  auto& all = noted();
  auto entry = std::find_if(all.begin(), all.end(),
                            [&](const LeftOut& known) { return known.suite == suite && known.why == text; });
  if (entry == all.end()) entry = all.insert(all.end(), {std::string(suite), text, {}, 0});
  if (std::find(entry->memories.begin(), entry->memories.end(), memory) == entry->memories.end()) {
    entry->memories.emplace_back(memory);
  }
  ++entry->cases;
}

const std::vector<LeftOut>& left_out() { return noted(); }

}  // namespace weir::test
