// SPDX-License-Identifier: Apache-2.0
// What a run did, in words.
#include <array>
#include <cstdio>
#include <string_view>

#include "engine.hpp"
#include "heap.hpp"

namespace weir::explore {
namespace {

std::string position(Where where) {
  if (!where.file) return {};
  const std::string_view file = where.file;
  if (file.starts_with("/usr/")) return {};  // in std::lock_guard, say
  return std::string(file.substr(file.rfind('/') + 1)) + ':' + std::to_string(where.line);
}

}  // namespace

void Engine::say(const Thread& thread, const char* what, const Location* location, std::string detail, Where where) {
  std::string line = what;
  if (location) line += (line.size() < 8 ? std::string(8 - line.size(), ' ') : " ") + location->text();
  if (!detail.empty()) line += ' ' + detail;
  if (const auto at = position(where); !at.empty()) {
    line += (line.size() < 60 ? std::string(60 - line.size(), ' ') : "  ") + at;
  }
  std::array<char, 32> head{};
  std::snprintf(head.data(), head.size(), "%5zu  T%zu  ", steps_, index(thread));
  const UntrackedHeap outside;
  trace_.append(head.data()).append(line).append("\n");
}

std::string Engine::value_text(std::uint64_t value) {
  if (value < 1'000'000) return std::to_string(value);
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

const char* Engine::to_string(std::memory_order order) noexcept {
  switch (order) {
    case std::memory_order_relaxed: return "relaxed";
    case std::memory_order_consume: return "consume";
    case std::memory_order_acquire: return "acquire";
    case std::memory_order_release: return "release";
    case std::memory_order_acq_rel: return "acq_rel";
    case std::memory_order_seq_cst: break;
  }
  return "seq_cst";
}

std::string Engine::what_each_waits_for() const {
  std::string text;
  for (std::size_t i = 0; i < count_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.over) continue;
    if (!text.empty()) text += "; ";
    text += "T" + std::to_string(i);
    switch (thread.act) {
      case Act::lock:
        text += " for " + thread.location->text() + ", which T" + std::to_string(thread.mutex->holder - 1) + " holds";
        break;
      case Act::wake:
      case Act::wake_or_time_out: text += " to be notified by " + thread.location->text(); break;
      default: text += " pauses until what it looked at changes"; break;
    }
    if (const auto at = position(thread.where); !at.empty()) text += ", at " + at;
  }
  return text;
}

}  // namespace weir::explore
