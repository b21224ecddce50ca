// SPDX-License-Identifier: Apache-2.0
// How far to pad arrays: needs of their users, and the shapes that follow.

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "dtype.hpp"
#include "extents.hpp"
#include "integers.hpp"

namespace weir::python {
namespace {

PaddingNeeds needs_of(const Int& size, const Int& at_least, const Int& multiple_of, const Int& aligned_to, bool exact) {
  return {.size = integer(size, "size"),
          .at_least = integer(at_least, "at_least"),
          .multiple_of = integer(multiple_of, "multiple_of"),
          .aligned_to = integer(aligned_to, "aligned_to"),
          .exact = exact};
}

bool equal(const PaddingNeeds& a, const PaddingNeeds& b) {
  return a.size == b.size && a.at_least == b.at_least && a.multiple_of == b.multiple_of &&
         a.aligned_to == b.aligned_to && a.exact == b.exact;
}

std::string text_of(const PaddingNeeds& needs) {
  std::string text = "PaddingNeeds(" + std::to_string(needs.size);
  if (needs.at_least != 0) text += ", at_least=" + std::to_string(needs.at_least);
  if (needs.multiple_of != 1) text += ", multiple_of=" + std::to_string(needs.multiple_of);
  if (needs.aligned_to != 1) text += ", aligned_to=" + std::to_string(needs.aligned_to);
  return text + (needs.exact ? ", exact=True)" : ")");
}

/// What pickle and copy take of it, and make one of.
///@{
using State = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
State state_of(const PaddingNeeds& n) { return {n.size, n.at_least, n.multiple_of, n.aligned_to, n.exact}; }
void set_state(PaddingNeeds& self, const State& state) {
  const auto [size, at_least, multiple_of, aligned_to, exact] = state;
  new (&self) PaddingNeeds{size, at_least, multiple_of, aligned_to, exact};
}
///@}

nb::tuple padded_shape_of(nb::handle dimensions) {
  if (PySequence_Check(dimensions.ptr()) == 0) wrong_type(dimensions, "dimensions", "a sequence of weir.PaddingNeeds");
  std::vector<PaddingNeeds> needs;
  for (const nb::handle one : nb::iter(dimensions)) {
    const std::string name = "dimensions[" + std::to_string(needs.size()) + "]";
    if (!nb::isinstance<PaddingNeeds>(one)) wrong_type(one, name.c_str(), "a weir.PaddingNeeds");
    needs.push_back(nb::cast<const PaddingNeeds&>(one));
  }
  return tuple_of(weir::padded_shape(needs));
}

}  // namespace

void bind_padding(nb::module_& m) {
  nb::class_<PaddingNeeds>(
      m, "PaddingNeeds",
      "What the users of one dimension of an array ask of its padded extent, in elements. A value: "
      "each user states its needs, and `unite` makes of them the needs of all.")
      .def(
          "__init__",
          [](PaddingNeeds* self, const Int& size, const Int& at_least, const Int& multiple_of, const Int& aligned_to,
             bool exact) { new (self) PaddingNeeds(needs_of(size, at_least, multiple_of, aligned_to, exact)); },
          nb::arg("size"), nb::kw_only(), nb::arg("at_least") = 0, nb::arg("multiple_of") = 1,
          nb::arg("aligned_to") = 1, nb::arg("exact") = false,
          "`size` elements are used. The padded extent is `at_least` so large and a multiple of `multiple_of`; a "
          "multiple of `aligned_to` is a wish. `exact` forbids padding. Negative numbers, and multiples below 1, are "
          "refused by extent() and unite().")
      .def_ro("size", &PaddingNeeds::size, "of what is used; the same for all users")
      .def_ro("at_least", &PaddingNeeds::at_least, "the padded extent is not smaller")
      .def_ro("multiple_of", &PaddingNeeds::multiple_of, "the padded extent is a multiple")
      .def_ro("aligned_to", &PaddingNeeds::aligned_to, "a wish: other extents are still allowed")
      .def_ro("exact", &PaddingNeeds::exact, "padding is not allowed")
      .def("unite", &PaddingNeeds::unite, nb::arg("other"),
           "The needs of both users. Raises Error when their sizes differ, and when no padded extent suits both.")
      .def("extent", &PaddingNeeds::extent,
           "The padded extent to choose: the smallest one that is allowed, rounded up to `aligned_to` unless that is "
           "larger than the extent itself. Raises Error when no extent is allowed.")
      .def(
          "allows", [](const PaddingNeeds& n, const Int& padded) { return n.allows(integer(padded, "padded")); },
          nb::arg("padded"), "Whether an array that is padded to `padded` elements suits all users.")
      .def(
          "__eq__",
          [](const PaddingNeeds& a, nb::handle b) {
            return nb::isinstance<PaddingNeeds>(b) && equal(a, nb::cast<const PaddingNeeds&>(b));
          },
          nb::arg("other").none())
      .def("__hash__",
           [](const PaddingNeeds& n) {
             return nb::hash(nb::make_tuple(n.size, n.at_least, n.multiple_of, n.aligned_to, n.exact));
           })
      .def("__getstate__", &state_of)
      .def("__setstate__", &set_state, nb::arg("state"))
      .def("__repr__", [](const PaddingNeeds& n) { return "weir." + text_of(n); });

  m.def("padded_shape", &padded_shape_of, nb::arg("dimensions"),
        nb::sig("def padded_shape(dimensions: Sequence[PaddingNeeds]) -> tuple[int, ...]"),
        "The padded shape to choose for an array with these dimensions, for allocate_tensor and Buffer.view. Raises "
        "Error when no extent is allowed.");
  m.def(
      "elements_per_line",
      [](nb::handle dtype, const Int& bytes) { return elements_per_line(dtype_of(dtype), count(bytes, "bytes")); },
      nb::arg("dtype"), nb::arg("bytes") = 128,
      "The smallest number of elements whose bytes are a multiple of `bytes`: for `aligned_to` of the innermost "
      "dimension, so that every row begins on a line of that many bytes. Raises Error for 0 bytes.");
}

}  // namespace weir::python
