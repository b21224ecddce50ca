// SPDX-License-Identifier: Apache-2.0
// from_dlpack by the producer's table of C functions (__dlpack_c_exchange_api__), without a call of Python.

#include "exchange_import.hpp"

#include <array>
#include <utility>

#include "cuda_stream.hpp"
#include "dlpack.hpp"
#include "dlpack_names.hpp"
#include "integers.hpp"

namespace weir::python {
namespace {

/// What is known of a class: its table, if that can be used, and whether its objects are tensors of PyTorch.
struct Producer {
  PyObject* type = nullptr;  // owned, so that no other class gets its address
  const DLPackExchangeAPI* table = nullptr;
  bool is_torch = false;
};

/// Return the table of this major version. A newer one names those before it.
const DLPackExchangeAPI* of_our_version(const void* pointer) {
  auto* header = static_cast<const DLPackExchangeAPIHeader*>(pointer);
  for (int older = 0; header && header->version.major > DLPACK_MAJOR_VERSION && older < 16; ++older)
    header = header->prev_api;
  if (!header || header->version.major != DLPACK_MAJOR_VERSION) return nullptr;
  const auto* const table = reinterpret_cast<const DLPackExchangeAPI*>(header);
  return table->managed_tensor_from_py_object_no_sync && table->current_work_stream ? table : nullptr;
}

const DLPackExchangeAPI* table_of(nb::handle type) {
  const nb::object capsule = nb::steal(PyObject_GetAttr(type.ptr(), interned(Name::exchange_api)));
  const void* const pointer =
      capsule && PyCapsule_CheckExact(capsule.ptr()) ? PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api") : nullptr;
  PyErr_Clear();
  const DLPackExchangeAPI* const table = of_our_version(pointer);
  return table == exchange_table() ? nullptr : table;  // __dlpack__ of weir orders without a detour
}

bool is_torch(nb::handle type) {
  PyObject* const torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  const nb::object tensor = nb::steal(torch ? PyObject_GetAttrString(torch, "Tensor") : nullptr);
  const int answer = tensor ? PyObject_IsSubclass(type.ptr(), tensor.ptr()) : 0;
  PyErr_Clear();
  return answer == 1;
}

/// Return what is known of exactly this class. The last classes are remembered. Needs the GIL.
Producer producer_of(nb::handle type) {
  static std::array<Producer, 8> known;
  static std::size_t next = 0;
  for (const Producer& one : known)
    if (one.type == type.ptr()) return one;
  const Producer made{type.ptr(), table_of(type), is_torch(type)};
  type.inc_ref();
  const Producer forgotten = std::exchange(known[next++ % known.size()], made);
  Py_XDECREF(forgotten.type);
  return made;
}

/// Return whether an attribute of `object`, or what it returns when it is called, is true, or cannot be asked.
bool holds(nb::handle object, Name name, bool is_method) {
  PyObject* const self = object.ptr();
  const nb::object answer = nb::steal(is_method ? PyObject_VectorcallMethod(interned(name), &self, 1, nullptr)
                                                : PyObject_GetAttr(self, interned(name)));
  const int truth = answer ? PyObject_IsTrue(answer.ptr()) : -1;
  if (truth < 0) PyErr_Clear();
  return truth != 0;
}

/// Return whether PyTorch's __dlpack__ would refuse the tensor where its C function does not look.
bool torch_refuses(nb::handle tensor) {
  return holds(tensor, Name::requires_grad, false) || holds(tensor, Name::is_conj, true) ||
         holds(tensor, Name::is_neg, true);
}

[[noreturn]] void failed(const char* function) {
  if (PyErr_Occurred()) throw nb::python_error();
  fail(PyExc_BufferError, std::string("from_dlpack: the producer's ") + function + " gave neither an answer nor an error");
}

/// A tensor until it is taken over.
struct Exported {
  explicit Exported(DLManagedTensorVersioned* tensor) : managed(tensor) {}
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() {
    if (managed) return_to_producer(managed);
  }
  DLManagedTensorVersioned* managed;
};

}  // namespace

std::optional<Tensor> exchange(nb::handle object, nb::handle stream) {
  const Producer producer = producer_of(object.type());
  if (!producer.table || (producer.is_torch && torch_refuses(object))) return std::nullopt;
  DLManagedTensorVersioned* made = nullptr;
  if (producer.table->managed_tensor_from_py_object_no_sync(object.ptr(), &made) != 0 || !made) {
    if (!producer.is_torch) failed("managed_tensor_from_py_object_no_sync");
    PyErr_Clear();  // a RuntimeError with a stack of C++; __dlpack__ of PyTorch refuses with a BufferError for users
    return std::nullopt;
  }
  Exported exported(made);
  const DLDevice device = device_in(*made);
  const Consumer consumer = consumer_for(stream, {static_cast<std::int32_t>(device.device_type), device.device_id});
  if (consumer.handle) {
    void* current = nullptr;
    if (producer.table->current_work_stream(device.device_type, device.device_id, &current) != 0)
      failed("current_work_stream");
    const auto handle = current ? reinterpret_cast<std::uintptr_t>(current) : cuda_legacy_stream;
    const Stream& target = consumer.producer_side ? *consumer.producer_side : consumer.stream;
    if (handle != *consumer.handle)
      without_gil([&] { target.wait(cuda_stream(target.device(), handle).record()); });
    if (consumer.producer_side) without_gil([&] { consumer.stream.wait(consumer.producer_side->record()); });
  }
  return take_over(std::exchange(exported.managed, nullptr), consumer.stream);
}

}  // namespace weir::python
