// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/deadline.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "weir/error.hpp"

namespace weir::detail::channel {

void Deadline::check(const char* why, const char* whose) const {
  if (over()) throw Error(Errc::timed_out, std::string(whose) + ": " + why);
}

std::chrono::milliseconds Deadline::left() const noexcept {
  if (endless_) return std::chrono::milliseconds{-1};
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()), std::chrono::milliseconds{0});
}

int Deadline::milliseconds() const noexcept {
  return static_cast<int>(std::min<std::int64_t>(left().count(), 1 << 30));
}

}  // namespace weir::detail::channel
