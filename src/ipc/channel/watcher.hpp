// SPDX-License-Identifier: Apache-2.0
#pragma once
// The thread that attends to connections while none of the user's threads does: it reads what the peers give back and
// notices their ends, and it sends what could not be sent at once.

#include <cstdint>
#include <memory>
#include <utility>

namespace weir::detail::channel {

class Link;

/// While one exists, the thread does not end for want of work, so that what is lent meanwhile can be watched.
class Attended {
 public:
  /// Start the thread unless it is there. Throws what keeps it from that.
  Attended();
  Attended(Attended&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
  ~Attended();
  Attended& operator=(Attended&&) = delete;

 private:
  std::uint32_t process_;  // 0 for an object that was moved from
};

/// Have the thread attend to the link soon, and again whenever that asks for it. It keeps the link until then. Throws
/// what keeps the thread from it.
void ask_to_attend(const std::shared_ptr<Link>& link);
/// The same where nothing may throw. Return false, after a report, when something keeps the thread from it.
bool attend_soon(const std::shared_ptr<Link>& link) noexcept;

/// Have the thread attend to the link when something has come over its socket, which may be now. The thread sleeps on
/// until then, and keeps the link. Return false, and report why, if that is impossible.
[[nodiscard]] bool attend_when_readable(const std::shared_ptr<Link>& link) noexcept;

/// Take back what peers have given back before this call. Return false when there was no connection to look at. Does
/// nothing on the thread itself, where the end of a buffer may call this.
bool settle_channels();

}  // namespace weir::detail::channel
