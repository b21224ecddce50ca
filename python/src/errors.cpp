// SPDX-License-Identifier: Apache-2.0
// weir::Error and weir::OutOfMemory as Python exceptions with fields.

#include <array>
#include <cstring>
#include <exception>

#include "bind.hpp"
#include "guarded.hpp"

namespace weir::python {
namespace {

PyObject* error_type = nullptr;
PyObject* out_of_memory_type = nullptr;

constexpr std::array conditions{
    Errc::invalid_argument, Errc::unsupported,        Errc::incompatible,      Errc::closed,    Errc::device_lost,
    Errc::peer_gone,        Errc::corrupt_descriptor, Errc::permission_denied, Errc::timed_out, Errc::out_of_memory};

nb::object condition_of(const std::error_code& code) {
  for (const Errc condition : conditions)
    if (code == condition) return nb::cast(condition);
  return nb::none();
}

void set_code(nb::object& exception, const std::error_code& code) {
  exception.attr("code") = code.value();
  exception.attr("category") = code.category().name();
}

/// Return the message of an error, which may quote what another process said and is no UTF-8. Null with a Python
/// exception where there is no memory.
nb::object text_of(const char* what) noexcept {
  return nb::steal(PyUnicode_DecodeUTF8(what, static_cast<Py_ssize_t>(std::strlen(what)), "replace"));
}

void set_exception(PyObject* type, const char* what) noexcept {
  if (const nb::object text = text_of(what)) PyErr_SetObject(type, text.ptr());
}

void raise(PyObject* type, const char* what, void (*fill)(nb::object&, const void*), const void* error) {
  const nb::object text = text_of(what);
  if (!text) throw nb::python_error();
  nb::object exception = nb::borrow(type)(text);
  fill(exception, error);
  PyErr_SetObject(type, exception.ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const OutOfMemory& e) {
    raise(
        out_of_memory_type, e.what(),
        [](nb::object& exception, const void* error) {
          const Shortage& s = static_cast<const OutOfMemory*>(error)->shortage();
          exception.attr("requested") = s.requested;
          exception.attr("alignment") = s.alignment;
          exception.attr("in_use") = s.in_use;
          exception.attr("reserved") = s.reserved;
          exception.attr("limit") = s.limit;
          exception.attr("largest_free") = s.largest_free;
          exception.attr("device_free") = s.device_free;
          exception.attr("leased") = s.leased;
          exception.attr("leased_buffers") = s.leased_buffers;
          exception.attr("leased_to") = nb::str(s.leased_to.c_str());
          exception.attr("device") = nb::str(s.device.c_str());
          exception.attr("resource") = nb::str(s.resource.c_str());
          exception.attr("call") = nb::str(s.call.c_str());
          set_code(exception, s.native);
        },
        &e);
  } catch (const Error& e) {
    raise(
        error_type, e.what(),
        [](nb::object& exception, const void* error) {
          const std::error_code& code = static_cast<const Error*>(error)->code();
          exception.attr("condition") = condition_of(code);
          set_code(exception, code);
        },
        &e);
  }
}

PyObject* new_exception(nb::module_& m, const char* name, const char* doc, PyObject* base) {
  const std::string full = std::string{"weir."} + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return type;
}

PyObject* python_type(nb::exception_type type) {
  switch (type) {
    case nb::exception_type::value_error: return PyExc_ValueError;
    case nb::exception_type::type_error: return PyExc_TypeError;
    case nb::exception_type::buffer_error: return PyExc_BufferError;
    case nb::exception_type::attribute_error: return PyExc_AttributeError;
    default: return PyExc_RuntimeError;
  }
}

}  // namespace

void set_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    if (e.code() != Errc::unsupported && e.code() != Errc::incompatible) return set_plain_exception();
    set_exception(PyExc_BufferError, e.what());
  } catch (...) {
    set_plain_exception();
  }
}

void set_plain_exception() noexcept {
  try {
    throw;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const nb::builtin_exception& e) {
    set_exception(python_type(e.type()), e.what());
  } catch (const Error&) {
    translate(std::current_exception(), nullptr);
  } catch (const OutOfMemory&) {
    translate(std::current_exception(), nullptr);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    set_exception(PyExc_RuntimeError, e.what());
  } catch (...) {  // the interpreter has ended, and ends this thread
    wait_for_the_end_of_the_process();
  }
}

void bind_errors(nb::module_& m) {
  nb::enum_<Errc>(m, "Errc", "What went wrong, whichever backend found it.")
      .value("invalid_argument", Errc::invalid_argument)
      .value("unsupported", Errc::unsupported)
      .value("incompatible", Errc::incompatible)
      .value("closed", Errc::closed)
      .value("device_lost", Errc::device_lost)
      .value("peer_gone", Errc::peer_gone)
      .value("corrupt_descriptor", Errc::corrupt_descriptor)
      .value("permission_denied", Errc::permission_denied)
      .value("timed_out", Errc::timed_out)
      .value("out_of_memory", Errc::out_of_memory);
  error_type = new_exception(m, "Error",
                             "Every failure but exhaustion. `condition` is a weir.Errc; `code` and `category` are the "
                             "native number and whose it is.",
                             PyExc_RuntimeError);
  out_of_memory_type = new_exception(m, "OutOfMemory",
                                     "A resource could not provide the memory. Fields, in bytes and 0 where unknown: "
                                     "requested, alignment, in_use, reserved, limit, largest_free, device_free; and "
                                     "device, resource, call, code, category.",
                                     PyExc_MemoryError);
  nb::register_exception_translator(&translate);
}

}  // namespace weir::python
