// SPDX-License-Identifier: Apache-2.0
#include "host_array.hpp"

#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <string_view>

#include "dlpack.hpp"
#include "host_bytes.hpp"
#include "integers.hpp"
#include "ordering.hpp"
#include "owners.hpp"
#include "weir/host.hpp"

namespace weir::python {
namespace {

/// A request for the memory of an object, answered.
class View {
 public:
  View(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() { PyBuffer_Release(&view_); }
  const Py_buffer* operator->() const noexcept { return &view_; }

 private:
  Py_buffer view_;
};

/// A reference that is dropped by whoever is first: the stream that has passed a copy, or weir when no use is left.
class SharedOwner {
 public:
  explicit SharedOwner(nb::handle object) : owner_(object) {}
  void drop() noexcept {
    if (!dropped_.test_and_set()) owner_.drop();
  }

 private:
  Owner owner_;
  std::atomic_flag dropped_;
};

/// Return the element type of one letter of the module struct. Letters of C's types have the size that the object says.
std::optional<DType> element_type(std::string_view format, Py_ssize_t bytes) {
  constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
  if (!format.empty() && (format[0] == native || format[0] == '=' || format[0] == '@')) format.remove_prefix(1);
  const auto of = [&](DType kind) { return DType{kind.code, static_cast<std::uint8_t>(8 * bytes), 1}; };
  if (bytes < 1 || bytes > 16) return std::nullopt;
  if (format == "?") return bool8;
  if (format == "Zf" || format == "Zd") return of(c64);
  if (format.size() != 1) return std::nullopt;
  if (std::string_view{"bhilqn"}.find(format[0]) != std::string_view::npos) return of(i8);
  if (std::string_view{"BHILQN"}.find(format[0]) != std::string_view::npos) return of(u8);
  if (std::string_view{"efd"}.find(format[0]) != std::string_view::npos) return of(f32);
  return std::nullopt;
}

HostArray from_buffer(nb::handle object, const char* what, Access access) {
  const int wanted = PyBUF_STRIDES | PyBUF_FORMAT | (access == Access::write ? PyBUF_WRITABLE : 0);
  // A memoryview locks the memory until the copy is over. The object itself says whether it may be written.
  { const View asked{object, wanted}; }
  const nb::object kept = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!kept) throw nb::python_error();
  const View view{kept, wanted};
  const std::string format = view->format ? view->format : "B";
  const auto dtype = element_type(format, view->itemsize);
  if (!dtype)
    fail(PyExc_TypeError,
         std::string(what) + " must have elements of a type that weir has, not of format '" + format + "'");

  Layout layout{*dtype, {}, {}, 0};
  std::int64_t first = 0, last = view->itemsize;  // bytes from element 0 to both ends
  bool fits = true;                               // into these numbers
  for (int i = 0; i < view->ndim; ++i) {
    const std::int64_t extent = view->shape[i], step = view->strides[i];
    if (extent > 1 && step % view->itemsize != 0)
      fail(PyExc_TypeError, std::string(what) + " must have strides of whole elements, not of " + std::to_string(step) +
                                " bytes for " + std::to_string(view->itemsize));
    layout.shape.push_back(extent);
    layout.strides.push_back(extent > 1 ? step / view->itemsize : 1);
    std::int64_t reach = 0;
    auto& end = step < 0 ? first : last;
    if (extent > 1 && (__builtin_mul_overflow(extent - 1, step, &reach) || __builtin_add_overflow(end, reach, &end)))
      fits = false;
  }
  const Stream& stream = host_stream();
  if (layout.elements() == 0)
    return {Tensor(host::make_pageable_resource()->allocate(0, stream), std::move(layout)), {}};
  std::int64_t bytes = 0;
  if (!fits || first == std::numeric_limits<std::int64_t>::min() || __builtin_sub_overflow(last, first, &bytes))
    fail(PyExc_ValueError, std::string(what) + " reaches beyond every address");
  layout.byte_offset = static_cast<std::size_t>(-first);
  const auto address = reinterpret_cast<std::uintptr_t>(view->buf) - layout.byte_offset;
  const auto owner = std::make_shared<SharedOwner>(kept);
  const auto drop = [owner] { owner->drop(); };
  try {
    Buffer memory = Buffer::from_handle(host_device(), address, static_cast<std::size_t>(bytes), drop, stream);
    return {Tensor(std::move(memory), std::move(layout)), drop};
  } catch (...) {
    owner->drop();  // weir did not drop it
    throw;
  }
}

HostArray from_any_buffer(nb::handle object, const char* what, Access access) {
  try {
    return from_buffer(object, what, access);
  } catch (nb::python_error& refused) {  // NumPy's, for want of a format
    const auto integers = refused.matches(PyExc_ValueError) ? as_integers(object) : std::nullopt;
    if (!integers) throw;
    HostArray array = from_buffer(integers->array, what, access);
    Layout layout = array.tensor.layout();
    layout.dtype = integers->dtype;
    array.tensor = Tensor(array.tensor.buffer().share(), std::move(layout));
    return array;
  }
}

HostArray from_exporter(nb::handle object, const char* what) {
  constexpr int cpu = 1;  // kDLCPU
  const nb::object device = object.attr("__dlpack_device__")();
  if (integer(device[0], "the type of a DLPack device") != cpu)
    fail(PyExc_TypeError, std::string(what) +
                              " must be in memory of the host: take memory of a device with "
                              "from_dlpack(array, stream=stream)");
  return {from_dlpack(object, nb::none()), {}};
}

}  // namespace

Tensor open_tensor(const Tensor& tensor, const char* operation) {
  try {
    return tensor.share();
  } catch (const Error& e) {
    if (e.code() != Errc::closed) throw;
    throw Error(Errc::closed, std::string(operation) + ": the tensor is closed");
  }
}

std::optional<Tensor> weir_tensor(nb::handle object, const char* operation) {
  if (nb::isinstance<Tensor>(object)) return open_tensor(nb::cast<const Tensor&>(object), operation);
  if (!nb::isinstance<Buffer>(object)) return std::nullopt;
  const auto& buffer = nb::cast<const Buffer&>(object);
  return buffer.view(u8, {static_cast<std::int64_t>(buffer.size())});
}

HostArray host_array(nb::handle object, const char* what, Access access) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) return from_any_buffer(object, what, access);
  if (nb::hasattr(object, "__dlpack__")) return from_exporter(object, what);
  wrong_type(object, what, "a Tensor, a Buffer, or an array with the buffer protocol or __dlpack__");
}

}  // namespace weir::python
