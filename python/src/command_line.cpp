// SPDX-License-Identifier: Apache-2.0
// The weir command line inside the module, for `python -m weir`. Builds without the tools leave it out.

#include "bind.hpp"

#if WEIR_HAS_TOOLS
#include <vector>

#include "weir/commands.hpp"
#endif

namespace weir::python {

#if WEIR_HAS_TOOLS

namespace {

/// Return words as the system has them, which need not be text.
std::vector<std::string> words_in(const nb::list& list) {
  std::vector<std::string> words;
  for (const nb::handle word : list) {
    const char* const text = PyBytes_AsString(word.ptr());
    if (!text) throw nb::python_error();
    words.emplace_back(text);
  }
  return words;
}

}  // namespace

void bind_command_line(nb::module_& m) {
  m.def(
      "_run_command_line",
      [](const nb::list& arguments, const nb::list& program) {
        std::vector<std::string> given = words_in(arguments);
        const std::vector<std::string> start = words_in(program);
        std::vector<char*> words;
        for (std::string& word : given) words.push_back(word.data());
        return without_gil([&] { return cli::run(words, start); });
      },
      nb::arg("arguments"), nb::arg("program"),
      nb::sig("def _run_command_line(arguments: list[bytes], program: list[bytes]) -> int"),
      "Run the weir command line and return its exit status. `program` are the words that start it in a process.");
}

#else

void bind_command_line(nb::module_&) {}

#endif

}  // namespace weir::python
