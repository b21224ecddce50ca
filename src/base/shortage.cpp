// SPDX-License-Identifier: Apache-2.0
#include "base/shortage.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "weir/error.hpp"

namespace weir::detail {

bool is_shortage() noexcept {
  constexpr int shortages[] = {EMFILE, ENFILE, ENOBUFS, ETOOMANYREFS, EAGAIN};
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error& error) {
    if (error.code() == Errc::out_of_memory) return true;
    return std::ranges::any_of(shortages, [&](int shortage) {
      return error.code() == std::error_condition(shortage, std::generic_category());
    });
  } catch (...) {
    return false;
  }
}

}  // namespace weir::detail
