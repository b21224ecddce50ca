// SPDX-License-Identifier: Apache-2.0

#include "host_bytes.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "dtype.hpp"
#include "guarded.hpp"
#include "integers.hpp"
#include "ordering.hpp"
#include "weir/spi/dlpack.hpp"
#include "weir/spi/segment.hpp"

namespace weir::python {
namespace {

/// Return whether elements of this format are, or contain, references to objects of Python. Names of fields stand
/// between colons.
bool has_references(std::string_view format) {
  bool in_name = false;
  for (const char letter : format) {
    if (letter == ':') in_name = !in_name;
    if (letter == 'O' && !in_name) return true;
  }
  return false;
}

nb::object contiguous(nb::handle object, int access) {
  if (PyObject* const view = PyMemoryView_GetContiguous(object.ptr(), access, 'C')) return nb::steal(view);
  nb::python_error refused;
  const auto integers = refused.matches(PyExc_ValueError) ? as_integers(object) : std::nullopt;
  if (!integers) throw refused;
  return contiguous(integers->array, access);
}

HostBytes host_bytes_of(nb::handle object, int access) {
  nb::object view = contiguous(object, access);
  Py_buffer buffer;
  if (PyObject_GetBuffer(view.ptr(), &buffer, PyBUF_RECORDS_RO) != 0) throw nb::python_error();
  const std::span bytes{static_cast<std::byte*>(buffer.buf), static_cast<std::size_t>(buffer.len)};
  const std::string format = buffer.format ? buffer.format : "";
  PyBuffer_Release(&buffer);  // the view still holds the memory
  if (has_references(format))
    fail(PyExc_TypeError, "objects of Python, of format '" + format + "', cannot be copied as bytes");
  return {std::move(view), bytes};
}

/// What a Py_buffer points to and keeps alive.
struct Exported {
  Buffer buffer;
  spi::ByteRange reach;  // of the view
  std::string format;
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;  // bytes
};

spi::Elements elements_of(const Layout& layout) {
  return {layout.dtype, layout.shape, layout.strides, layout.byte_offset};
}

/// Return whether the elements lie in an order that these flags allow. Whoever asks for no strides takes rows.
bool is_in_order(const Layout& layout, int flags) {
  const auto asks = [&](int order) { return (flags & order) == order; };
  const bool rows = layout.is_compact();
  const auto columns = [&] { return layout.transpose().is_compact(); };
  if ((asks(PyBUF_C_CONTIGUOUS) || !asks(PyBUF_STRIDES)) && !rows) return false;
  if (asks(PyBUF_F_CONTIGUOUS) && !columns()) return false;
  return !asks(PyBUF_ANY_CONTIGUOUS) || rows || columns();
}

std::unique_ptr<Exported> exported(const Buffer& buffer, const Layout& layout, int flags) {
  if (buffer.is_closed()) throw Error(Errc::closed, "buffer protocol: the buffer is closed");
  if (!buffer.is_host_accessible())
    throw nb::buffer_error("the host cannot reach this memory: copy_to host-accessible memory first");
  if ((flags & PyBUF_WRITABLE) && buffer.is_read_only()) throw nb::buffer_error("this memory is read-only");
  if (!is_in_order(layout, flags)) throw nb::buffer_error("this array is not contiguous in the order asked for");

  auto out = std::make_unique<Exported>(
      Exported{buffer.share(), spi::reach_of(elements_of(layout)), buffer_format(layout.dtype), {}, {}});
  const std::uint64_t item = layout.dtype.bytes();
  out->shape.assign(layout.shape.begin(), layout.shape.end());
  for (const std::int64_t stride : layout.strides)  // one that no element takes may be any number
    out->strides.push_back(static_cast<Py_ssize_t>(static_cast<std::uint64_t>(stride) * item));
  return out;
}

void fill(Py_buffer& view, int flags, const Buffer& buffer, const Layout& layout) {
  auto state = exported(buffer, layout, flags);
  complete_on_host(state->buffer, elements_of(layout));
  std::byte* const data = state->buffer.host_data();
  view.buf = data ? data + layout.byte_offset : nullptr;
  view.itemsize = static_cast<Py_ssize_t>(layout.dtype.bytes());
  if (__builtin_mul_overflow(layout.elements(), static_cast<std::size_t>(view.itemsize), &view.len))
    throw nb::buffer_error("this array has more bytes, with those that it shows again and again, than can be counted");
  view.readonly = state->buffer.is_read_only();
  view.ndim = static_cast<int>(layout.shape.size());
  view.format = (flags & PyBUF_FORMAT) ? state->format.data() : nullptr;
  view.shape = (flags & PyBUF_ND) ? state->shape.data() : nullptr;
  view.strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? state->strides.data() : nullptr;
  view.suboffsets = nullptr;
  view.internal = state.release();
}

/// An instruction of Python that calls functions of C. Compared only: the frame may have ended.
struct Place {
  const void* frame;
  std::int64_t instruction;
  bool operator==(const Place&) const = default;
};

Place current_place() noexcept {
  auto* const frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  if (!frame) return {nullptr, 0};
  const nb::object number = nb::steal(PyObject_GetAttrString(frame, "f_lasti"));
  const std::int64_t instruction = number ? PyLong_AsLongLong(number.ptr()) : -1;
  PyErr_Clear();
  return {frame, instruction};
}

/// The last request for a view in this thread, if Ctrl-C ended it.
struct Interrupted {
  const void* object;
  Place place;
};
thread_local std::optional<Interrupted> interrupted;

/// Call `f`, which fills the view. On failure the view owns nothing.
template <class F>
int answer(PyObject* self, Py_buffer* view, F&& f) noexcept {
  interrupted.reset();
  view->obj = nullptr;
  view->obj = guarded([&] { return f(), nb::borrow(self); });
  if (view->obj) return 0;
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
    const nb::error_scope kept;
    interrupted = {nb::inst_ptr<void>(self), current_place()};
  }
  return -1;
}

}  // namespace

std::optional<TypedArray> as_integers(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const std::optional<DType> type = dtype.is_none() ? std::nullopt : known_dtype(dtype);
  if (!type || has_buffer_format(*type) || !nb::hasattr(object, "view")) return std::nullopt;
  return TypedArray{object.attr("view")("u" + std::to_string(type->bytes())), *type};
}

HostBytes readable(nb::handle object) { return host_bytes_of(object, PyBUF_READ); }
HostBytes writable(nb::handle object) { return host_bytes_of(object, PyBUF_WRITE); }

void raise_lost_interrupt(const void* object) {
  if (!interrupted) return;
  const Interrupted last = *std::exchange(interrupted, std::nullopt);
  if (last.object == object && last.place == current_place()) fail(PyExc_KeyboardInterrupt, "");
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  return answer(self, view, [&] {
    const Buffer& buffer = instance<Buffer>(self, "self");
    fill(*view, flags, buffer, Layout::compact(u8, {static_cast<std::int64_t>(buffer.size())}));
  });
}

int get_tensor(PyObject* self, Py_buffer* view, int flags) noexcept {
  return answer(self, view, [&] {
    const Tensor& tensor = instance<Tensor>(self, "self");
    fill(*view, flags, tensor.buffer(), tensor.layout());
  });
}

void release_buffer(PyObject*, Py_buffer* view) noexcept {
  const std::unique_ptr<Exported> state{static_cast<Exported*>(view->internal)};
  // A memoryview asks for no writable memory, and writes it all the same. Only read-only memory was certainly not
  // written.
  if (!state || view->readonly || state->reach.bytes == 0) return;
  try {
    const auto at = state->buffer.location();
    at.segment->after_host_write(at.offset + state->reach.offset, state->reach.bytes);
  } catch (const std::exception& e) {
    report({{}, "releasing a buffer-protocol view", e.what()});
  }
}

}  // namespace weir::python
