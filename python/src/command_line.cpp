// SPDX-License-Identifier: Apache-2.0
// The weir command line inside the module, for `python -m weir`. Builds without the tools leave it out.

#include "bind.hpp"

#if WEIR_HAS_TOOLS
#include <nanobind/stl/vector.h>

#include <vector>

#include "weir/commands.hpp"
#endif

namespace weir::python {

#if WEIR_HAS_TOOLS

void bind_command_line(nb::module_& m) {
  m.def(
      "_run_command_line",
      [](std::vector<std::string> arguments, const std::vector<std::string>& program) {
        std::vector<char*> words;
        for (std::string& word : arguments) words.push_back(word.data());
        return without_gil([&] { return cli::run(words, program); });
      },
      nb::arg("arguments"), nb::arg("program"),
      "Run the weir command line and return its exit status. `program` are the words that start it in a process.");
}

#else

void bind_command_line(nb::module_&) {}

#endif

}  // namespace weir::python
