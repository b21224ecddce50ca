// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls that may be repeated when they throw: once the reason is gone, they work.

#include <array>
#include <exception>
#include <new>
#include <string_view>

#include "scenarios.hpp"
#include "weir/error.hpp"

namespace weir::test {

/// Throw WrongResult, saying what threw and what it said. Needs no memory.
[[noreturn]] inline void wrong_again(std::string_view call, std::string_view error) {
  static std::array<char, 512> text;
  std::size_t used = 0;
  for (const std::string_view part : {call, std::string_view(" does not work the second time either: "), error})
    used += part.copy(text.data() + used, text.size() - 1 - used);
  text[used] = '\0';
  throw WrongResult{text.data()};
}

/// Return what `call` returns. When it throws, call it once more, which has to work unless memory has run out or the
/// device was lost for good, and throw what it threw the first time.
template <class Call>
auto with_second_try(std::string_view name, const Call& call) {
  std::exception_ptr first;
  try {
    return call();
  } catch (const WrongResult&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Errc::timed_out) throw WrongResult{"a call waited for a peer that will not answer"};
    first = std::current_exception();
  } catch (...) {
    first = std::current_exception();
  }
  try {
    (void)call();
  } catch (const std::bad_alloc&) {
  } catch (const Error& error) {
    if (error.code() != Errc::device_lost) wrong_again(name, error.what());
  }
  std::rethrow_exception(first);
}

}  // namespace weir::test
