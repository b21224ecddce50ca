// SPDX-License-Identifier: Apache-2.0
#include "ipc/own_failure.hpp"

#include <exception>

#include "weir/error.hpp"

namespace weir::detail {

void report_own_failure(const char* where) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    for (const Errc theirs : {Errc::peer_gone, Errc::corrupt_descriptor, Errc::incompatible}) {
      if (error.code() == theirs) return;
    }
    report({error.code(), where, error.what()});
  } catch (const std::exception& error) {
    report({make_error_code(std::errc::not_enough_memory), where, error.what()});
  }
}

}  // namespace weir::detail
