// SPDX-License-Identifier: Apache-2.0
#pragma once
// Another user, which only root can be.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace weir::test {

inline constexpr uid_t nobody = 65534;

/// Makes this thread, and no other, another user's.
class AsNobody {
 public:
  AsNobody() { become(nobody); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() { become(0); }

 private:
  static void become(uid_t user) { EXPECT_EQ(::syscall(SYS_setresuid, -1, user, -1), 0); }
};

}  // namespace weir::test
