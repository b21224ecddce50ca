// SPDX-License-Identifier: Apache-2.0
#include "schedule.hpp"

#include <charconv>
#include <stdexcept>

namespace weir::explore {
namespace {

constexpr unsigned most_repeats = 1'000'000;

std::string to_text(Decision decision) {
  const auto number = std::to_string(decision.which);
  switch (decision.kind) {
    case Decision::step: return number;
    case Decision::flush: return number + "f";
    case Decision::outcome: break;
  }
  return "=" + number;
}

unsigned take_number(std::string_view& text, unsigned most) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number > most) throw std::invalid_argument("a number is missing or too large");
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (std::size_t i = 0; i < schedule.size();) {
    std::size_t end = i + 1;
    while (end < schedule.size() && schedule[end] == schedule[i]) ++end;
    if (!text.empty()) text += ',';
    text += to_text(schedule[i]);
    if (end - i > 1) text += '*' + std::to_string(end - i);
    i = end;
  }
  return text;
}

Schedule parse_schedule(std::string_view text) {
  const std::string whole(text);
  Schedule schedule;
  try {
    while (!text.empty()) {
      const bool outcome = take(text, '=');
      const auto which = static_cast<std::uint8_t>(take_number(text, 255));
      const auto kind = outcome ? Decision::outcome : take(text, 'f') ? Decision::flush : Decision::step;
      const auto times = take(text, '*') ? take_number(text, most_repeats) : 1;
      schedule.insert(schedule.end(), times, Decision{kind, which});
      if (!text.empty() && (!take(text, ',') || text.empty())) throw std::invalid_argument("a comma is misplaced");
    }
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("not a schedule: '" + whole + "': " + error.what());
  }
  return schedule;
}

}  // namespace weir::explore
