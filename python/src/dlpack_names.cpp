// SPDX-License-Identifier: Apache-2.0

#include "dlpack_names.hpp"

#include <array>

namespace weir::python {
namespace {

std::array<PyObject*, 13> names;

}  // namespace

void intern_names() {
  constexpr std::array texts{"copy",       "stream",
                             "max_version", "dl_device",
                             "__dlpack__", "__dlpack_device__",
                             "__dlpack_c_exchange_api__", "requires_grad",
                             "is_conj",    "is_neg",
                             "obj",        "size",
                             "alignment"};
  static_assert(texts.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = PyUnicode_InternFromString(texts[i]);
    if (!names[i]) throw nb::python_error();
  }
}

PyObject* interned(Name name) { return names[static_cast<std::size_t>(name)]; }

// Names in a program are interned, so that their addresses say nearly always which they are.
std::optional<Name> keyword(nb::handle string) {
  constexpr std::array all{Name::max_version, Name::stream, Name::dl_device, Name::copy};
  for (const Name name : all)
    if (string.ptr() == interned(name)) return name;
  for (const Name name : all)
    if (PyUnicode_Compare(string.ptr(), interned(name)) == 0) return name;
  return std::nullopt;
}

}  // namespace weir::python
