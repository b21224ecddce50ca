// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signals that end a program, unless whoever started it had it ignore them, as nohup does.

#include <csignal>

namespace weir::cli {

inline bool is_ignored(int signal) noexcept {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace weir::cli
