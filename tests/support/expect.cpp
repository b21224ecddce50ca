// SPDX-License-Identifier: Apache-2.0
#include "expect.hpp"

#include <string>

namespace weir::test {
namespace {

// As in "Buffer::Buffer::copy_to".
bool names_a_scope_twice(std::string_view message) {
  const std::string_view mark = "::";
  for (auto at = message.find(mark); at != std::string_view::npos; at = message.find(mark, at + 1)) {
    const auto space = message.rfind(' ', at);
    const auto begin = space == std::string_view::npos ? 0 : space + 1;
    const auto scope = message.substr(begin, at + mark.size() - begin);
    if (scope != mark && message.substr(at + mark.size()).starts_with(scope)) return true;
  }
  return false;
}

testing::AssertionResult names(std::string_view message, std::string_view text) {
  if (names_a_scope_twice(message))
    return testing::AssertionFailure() << "the message \"" << message << "\" names a scope twice";
  if (message.find(text) != std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the message \"" << message << "\" does not name \"" << text << '"';
}

}  // namespace

testing::AssertionResult fails_with(const std::function<void()>& function, Errc condition, std::string_view text) {
  try {
    function();
  } catch (const Error& error) {
    if (error.code() != condition) {
      return testing::AssertionFailure() << "condition is not \"" << make_error_condition(condition).message()
                                         << "\" but " << error.code() << ": " << error.what();
    }
    return names(error.what(), text);
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "throws something else: " << error.what();
  }
  return testing::AssertionFailure() << "does not throw";
}

testing::AssertionResult runs_out_of_memory(const std::function<void()>& function, std::string_view text) {
  try {
    function();
  } catch (const OutOfMemory& error) {
    return names(error.what(), text);
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "throws something else: " << error.what();
  }
  return testing::AssertionFailure() << "does not throw";
}

}  // namespace weir::test
