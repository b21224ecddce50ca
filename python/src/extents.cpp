// SPDX-License-Identifier: Apache-2.0
#include "extents.hpp"

#include <algorithm>

namespace weir::python {
namespace {

Slice slice_of(nb::handle object) {
  Py_ssize_t begin = 0, end = 0, step = 1;
  if (PySlice_Unpack(object.ptr(), &begin, &end, &step) < 0) throw nb::python_error();
  return {begin, end, step};
}

}  // namespace

std::vector<std::int64_t> extents(nb::handle object, const char* what) {
  // NumPy's arrays say of themselves that they are integers, too; those without dimensions have no length.
  const bool sequence = PySequence_Check(object.ptr()) != 0 && PySequence_Size(object.ptr()) >= 0;
  PyErr_Clear();
  if (!sequence && is_integer(object)) return {integer(object, what)};
  if (!sequence || PyUnicode_Check(object.ptr()) != 0)
    fail(PyExc_TypeError,
         std::string(what) + " must be an integer or a sequence of them, not " + nb::type_name(object.type()).c_str());
  std::vector<std::int64_t> all;
  for (const nb::handle one : nb::iter(object)) all.push_back(integer(one, what));
  return all;
}

nb::tuple tuple_of(const std::vector<std::int64_t>& values) {
  nb::list list;
  for (const std::int64_t value : values) list.append(value);
  return nb::tuple(list);
}

Layout layout_of(DType dtype, nb::handle shape, nb::handle padded_shape, std::size_t byte_offset) {
  auto used = extents(shape, "an extent");
  if (padded_shape.is_none()) return Layout::compact(dtype, std::move(used), byte_offset);
  return Layout::padded(dtype, std::move(used), extents(padded_shape, "an extent of padded_shape"), byte_offset);
}

std::size_t padded_bytes(const Layout& layout, nb::handle padded_shape) {
  if (padded_shape.is_none()) return layout.bytes_needed();
  const auto padded = extents(padded_shape, "an extent of padded_shape");
  return Layout::compact(layout.dtype, padded, layout.byte_offset).bytes_needed();
}

Tensor subscript(const Tensor& tensor, nb::handle key) {
  const nb::tuple keys = nb::isinstance<nb::tuple>(key) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
  std::size_t named = 0, ellipses = 0;
  for (const nb::handle one : keys) {
    if (one.is(Py_Ellipsis))
      ++ellipses;
    else if (!one.is_none())
      ++named;
  }
  const auto dimensions = tensor.layout().shape.size();
  if (ellipses > 1) fail(PyExc_IndexError, "an index can have one ellipsis ('...') only");
  if (named > dimensions)
    fail(PyExc_IndexError, std::to_string(named) + " indices for " + std::to_string(dimensions) + " dimensions");
  Tensor part = tensor.share();
  std::size_t dimension = 0, removed = 0, added = 0;
  for (const nb::handle one : keys) {
    if (one.is(Py_Ellipsis)) {
      dimension += dimensions - named;
    } else if (one.is_none()) {
      auto shape = part.layout().shape;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dimension++), 1);
      ++added;
      part = part.reshape(std::move(shape));
    } else if (PySlice_Check(one.ptr())) {
      part = part.slice(dimension++, slice_of(one));
    } else if (is_integer(one)) {
      const auto extent = part.layout().shape[dimension];
      const auto index = integer(one, "an index");
      if (index < -extent || index >= extent)
        fail(PyExc_IndexError, "index " + std::to_string(index) + " is out of bounds for dimension " +
                                   std::to_string(dimension + removed - added) + " of " + std::to_string(extent) +
                                   " elements");
      part = part.at(dimension, index);
      ++removed;
    } else {
      fail(PyExc_TypeError,
           std::string("an index is an integer, a slice, '...' or None, not ") + nb::type_name(one.type()).c_str());
    }
  }
  return part;
}

}  // namespace weir::python
