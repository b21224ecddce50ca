// SPDX-License-Identifier: Apache-2.0
#include "base/shortage.hpp"

#include <algorithm>
#include <new>
#include <system_error>

#include "weir/error.hpp"

namespace weir::detail {

bool is_shortage() noexcept {
  constexpr std::errc shortages[] = {std::errc::too_many_files_open, std::errc::too_many_files_open_in_system};
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error& error) {
    if (error.code() == Errc::out_of_memory) return true;
    return std::ranges::any_of(shortages, [&](std::errc shortage) { return error.code() == shortage; });
  } catch (...) {
    return false;
  }
}

}  // namespace weir::detail
