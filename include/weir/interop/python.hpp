// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors of weir as DLPack capsules of Python, and the other way round: for extension modules with any binding library
// or with none. Optional: needs Python.h, of Python 3.10 or newer. Not part of weir.hpp. First, read dlpack.hpp.

#include <Python.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "weir/dlpack.hpp"
#include "weir/error.hpp"

/// Tensors of weir as DLPack capsules of Python. Every function here needs the GIL and keeps it. None lets an exception
/// of C++ out: a function that fails sets an exception of Python, and returns null or nothing.
namespace weir::python {

/// Turn the exception of C++ in flight into one of Python: MemoryError, ValueError for invalid_argument, BufferError
/// for unsupported and incompatible, and otherwise RuntimeError. Call it in a `catch`.
inline void set_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    const bool shown_otherwise = e.code() == Errc::unsupported || e.code() == Errc::incompatible;
    PyErr_SetString(shown_otherwise                      ? PyExc_BufferError
                    : e.code() == Errc::invalid_argument ? PyExc_ValueError
                                                         : PyExc_RuntimeError,
                    e.what());
  } catch (const std::bad_alloc& e) {
    PyErr_SetString(PyExc_MemoryError, e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception that is no std::exception");
  }
}

/// Which of DLPack's structs a capsule holds.
enum class CapsuleKind : std::uint8_t {
  versioned,  ///< "dltensor_versioned", for consumers that ask for a max_version of (1, 0) or more
  legacy,     ///< "dltensor", for consumers of DLPack before 1.0: all that ask for none
};

/// Return a new capsule that owns `tensor`. A consumer takes the tensor out; a capsule that nobody consumed gives the
/// memory back when it ends, on any thread. Fails with BufferError for a read-only tensor in a legacy capsule, which
/// cannot say so. The tensor is given back when this fails.
inline PyObject* make_capsule(ManagedTensor tensor, CapsuleKind kind = CapsuleKind::versioned) noexcept {
  // No exception that is in flight when a capsule ends is changed: the name is compared before the pointer is asked
  // for, and deleters of weir touch no object of Python.
  if (kind == CapsuleKind::versioned) {
    constexpr auto end = [](PyObject* dying) {
      if (!PyCapsule_IsValid(dying, "dltensor_versioned")) return;  // a consumer has the tensor
      void* const held = PyCapsule_GetPointer(dying, "dltensor_versioned");
      const ManagedTensor owner(static_cast<DLManagedTensorVersioned*>(held));
    };
    PyObject* const capsule = PyCapsule_New(tensor.get(), "dltensor_versioned", end);
    if (capsule) static_cast<void>(tensor.release());
    return capsule;
  }
  constexpr auto end = [](PyObject* dying) {
    if (!PyCapsule_IsValid(dying, "dltensor")) return;
    give_back(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(dying, "dltensor")));
  };
  try {
    DLManagedTensor* const held = tensor.release_legacy();
    PyObject* const capsule = PyCapsule_New(held, "dltensor", end);
    if (!capsule) give_back(held);
    return capsule;
  } catch (const Error& e) {
    if (e.code() != Errc::incompatible) return set_exception(), nullptr;
    PyErr_Format(PyExc_BufferError, "%s; a consumer of DLPack 1.0 asks with max_version=(1, 0) or later", e.what());
    return nullptr;
  } catch (...) {
    return set_exception(), nullptr;
  }
}

/// A tensor that was in a capsule, in one of the two structs. Whoever has it sees to its deleter.
struct TakenTensor {
  DLManagedTensorVersioned* versioned = nullptr;  ///< null unless the capsule was versioned
  DLManagedTensor* legacy = nullptr;              ///< null unless the capsule was legacy
};

/// Take the struct out of `capsule`, which is consumed then. Fails with ValueError for a capsule that was consumed
/// already, and with TypeError for any other object; then both pointers are null.
inline TakenTensor consume_capsule(PyObject* capsule) noexcept {
  const auto take = [capsule](const char* name, const char* used) -> void* {
    void* const held = PyCapsule_GetPointer(capsule, name);
    return held && PyCapsule_SetName(capsule, used) == 0 ? held : nullptr;
  };
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    return {static_cast<DLManagedTensorVersioned*>(take("dltensor_versioned", "used_dltensor_versioned")), nullptr};
  if (PyCapsule_IsValid(capsule, "dltensor"))
    return {nullptr, static_cast<DLManagedTensor*>(take("dltensor", "used_dltensor"))};
  const char* const name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : nullptr;
  PyErr_Clear();
  if (name && std::strncmp(name, "used_dltensor", std::strlen("used_dltensor")) == 0)
    PyErr_SetString(PyExc_ValueError, "this DLPack capsule was consumed already");
  else
    PyErr_SetString(PyExc_TypeError, "__dlpack__() did not return a DLPack capsule");
  return {};
}

/// Take over the tensor in `capsule`, as weir::from_dlpack does. Its work must be in order of `stream`. A legacy tensor
/// comes in read-only, because it cannot say that it may be written. The producer's deleter runs on any thread, perhaps
/// without the GIL, which DLPack lets it take: let tensors end before the interpreter does.
inline std::optional<Tensor> take_capsule(PyObject* capsule, const Stream& stream) noexcept {
  const TakenTensor taken = consume_capsule(capsule);
  if (!taken.versioned && !taken.legacy) return std::nullopt;
  try {
    return taken.versioned ? weir::from_dlpack(taken.versioned, stream)
                           : weir::from_dlpack(taken.legacy, stream, LegacyAccess::read_only);
  } catch (...) {
    set_exception();
    return std::nullopt;
  }
}

/// Ask any object with `__dlpack__` for a capsule, and take that over. `consumer` is what the producer is told as
/// `stream`, and borrowed: null for memory of the host. For CUDA memory give the number of `stream`,
/// `PyLong_FromVoidPtr(weir::cuda::native(stream))`. Fails with what the producer raises.
inline std::optional<Tensor> take_object(PyObject* object, const Stream& stream,
                                         PyObject* consumer = nullptr) noexcept {
  PyObject* const method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject* const nothing = PyTuple_New(0);
  PyObject* const newer = Py_BuildValue("{s:O,s:(ii)}", "stream", consumer ? consumer : Py_None, "max_version", 1, 3);
  PyObject* const older = Py_BuildValue("{s:O}", "stream", consumer ? consumer : Py_None);
  PyObject* capsule = nullptr;
  if (method && nothing && newer && older) {
    capsule = PyObject_Call(method, nothing, newer);
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // perhaps it knows no max_version
      PyErr_Clear();
      capsule = PyObject_Call(method, nothing, older);
    }
  }
  std::optional<Tensor> made;
  if (capsule) made = take_capsule(capsule, stream);
  for (PyObject* const mine : {method, nothing, newer, older, capsule}) Py_XDECREF(mine);
  return made;
}

}  // namespace weir::python
