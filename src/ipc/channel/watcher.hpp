// SPDX-License-Identifier: Apache-2.0
#pragma once
// The thread that attends to connections while none of the user's threads does: it reads what the peers give back and
// notices their ends, and it sends what could not be sent at once.

#include <cstdint>
#include <memory>

namespace weir::detail::channel {

class Link;

/// While one exists, the thread is there, so that what is lent meanwhile gets watched. Throws what keeps the thread
/// from starting.
class Attended {
 public:
  Attended();
  Attended(const Attended&) = delete;
  ~Attended();
  Attended& operator=(const Attended&) = delete;

 private:
  const std::uint32_t process_;
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
