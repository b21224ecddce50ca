// SPDX-License-Identifier: Apache-2.0
#include "exclusions.hpp"

#include <span>

namespace weir::test {
namespace {

// {"*/Sharing.*/vulkan_*_upload_exportable", Lasting::temporary, "why"},
constexpr std::span<const Exclusion> table{};

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

}  // namespace weir::test
