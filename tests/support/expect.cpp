// SPDX-License-Identifier: Apache-2.0
#include "expect.hpp"

#include <string>

namespace weir::test {
namespace {

testing::AssertionResult names(const char* message, std::string_view text) {
  if (std::string_view(message).find(text) != std::string_view::npos) return testing::AssertionSuccess();
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
