// SPDX-License-Identifier: Apache-2.0

#include "dlpack_names.hpp"

#include <array>

namespace weir::python {

PyObject* interned(Name name) {
  static const std::array names = [] {
    std::array<PyObject*, 6> made{};
    const char* const texts[] = {"copy", "stream", "max_version", "dl_device", "__dlpack__", "__dlpack_device__"};
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = PyUnicode_InternFromString(texts[i]);
      if (!made[i]) throw nb::python_error();
    }
    return made;
  }();
  return names[static_cast<std::size_t>(name)];
}

}  // namespace weir::python
