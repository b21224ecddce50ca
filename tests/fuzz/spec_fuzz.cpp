// SPDX-License-Identifier: Apache-2.0
// A resource in words: refused at a place in the text, or read back as the same.

#include <algorithm>
#include <string>

#include "replay/spec.hpp"
#include "target.hpp"

namespace weir::fuzz {
namespace {

void run_spec(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string normal;
  try {
    normal = replay::Spec(text).to_string();
  } catch (const replay::SpecError& error) {
    require(error.at() <= text.size(), "an error beyond the text");
    const std::string_view message = error.what();
    require(message.ends_with(" ^"), "the place is not marked");
    require(std::count(message.begin(), message.end(), '\n') == 2, "the mark is not below the text");
    return;
  }
  require(replay::Spec(normal).to_string() == normal, "does not read back as the same");
}

const Register registered("spec", &run_spec);

}  // namespace
}  // namespace weir::fuzz
