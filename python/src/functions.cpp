// SPDX-License-Identifier: Apache-2.0

#include "functions.hpp"

#include <utility>
#include <vector>

#include "integers.hpp"

namespace weir::python {
namespace {

/// All functions that there are. Only threads with the GIL touch the list. It is never destroyed.
std::vector<std::weak_ptr<Function>>& functions() {
  static auto& all = *new std::vector<std::weak_ptr<Function>>;
  return all;
}

void drop_functions() {
  for (const auto& one : std::exchange(functions(), {}))
    if (const auto function = one.lock()) function->drop();
}

}  // namespace

std::shared_ptr<Function> function_of(nb::handle function, const char* argument) {
  if (PyCallable_Check(function.ptr()) == 0) wrong_type(function, argument, "callable");
  auto shared = std::make_shared<Function>(function);
  std::erase_if(functions(), [](const auto& one) { return one.expired(); });
  functions().push_back(shared);
  return shared;
}

void drop_functions_at_exit() { nb::module_::import_("atexit").attr("register")(nb::cpp_function(&drop_functions)); }

}  // namespace weir::python
