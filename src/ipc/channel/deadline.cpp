// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/deadline.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "weir/error.hpp"

namespace weir::detail::channel {

void Deadline::check(const char* why) const {
  if (over()) throw Error(Errc::timed_out, std::string("ipc::Channel: ") + why);
}

int Deadline::milliseconds() const noexcept {
  if (endless_) return -1;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 1 << 30));
}

}  // namespace weir::detail::channel
