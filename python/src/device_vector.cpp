// SPDX-License-Identifier: Apache-2.0
// DeviceVector: an array of one dimension that grows in stream order.

#include "weir/device_vector.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "arrays.hpp"
#include "dtype.hpp"
#include "fill.hpp"
#include "held.hpp"
#include "host_array.hpp"
#include "integers.hpp"
#include "tensor_parts.hpp"
#include "weir/host.hpp"

namespace weir::python {
namespace {

using detail::VectorMemory;

/// The elements, and what lets several threads call them.
class Elements {
 public:
  Elements(ResourcePtr resource, std::size_t size, DType type, const Stream& stream)
      : dtype(type), memory_(std::move(resource), VectorMemory::bytes_of(size, type.bytes()), type.bytes(), stream) {}

  /// Call `f` with the memory while no other thread uses it. An allocation in it may call functions of Python, which
  /// find the vector in the middle of a change.
  template <class F>
  decltype(auto) with_memory(F&& f) {
    return without_gil([&] {
      if (user_ == std::this_thread::get_id())
        throw Error(Errc::invalid_argument,
                    "DeviceVector: a function that an allocation of this vector called cannot use the vector");
      const std::lock_guard lock(mutex_);
      const Use use(user_);
      return f(memory_);
    });
  }
  [[nodiscard]] std::size_t bytes_of(const Int& number, const char* what) const {
    return VectorMemory::bytes_of(count(number, what), dtype.bytes());
  }
  [[nodiscard]] std::size_t size() {
    return with_memory([](const VectorMemory& m) { return m.size(); }) / dtype.bytes();
  }
  [[nodiscard]] std::size_t capacity() {
    return with_memory([](const VectorMemory& m) { return m.buffer().size(); }) / dtype.bytes();
  }
  /// Return `many` elements from `first` on, or all of these.
  [[nodiscard]] Tensor part(std::size_t first, std::optional<std::size_t> many) {
    return with_memory([&](const VectorMemory& memory) {
      const std::size_t size = memory.size() / dtype.bytes();
      if (first > size || many.value_or(0) > size - first)
        throw Error(Errc::invalid_argument, "DeviceVector: " +
                                                (many ? std::to_string(*many) + " elements" : std::string("elements")) +
                                                " from number " + std::to_string(first) + " on, of " +
                                                std::to_string(size));
      return memory.buffer().view(dtype, {static_cast<std::int64_t>(many.value_or(size - first))},
                                  first * dtype.bytes());
    });
  }

  const DType dtype;

 private:
  struct Use {
    explicit Use(std::atomic<std::thread::id>& user) : user_(user) { user_ = std::this_thread::get_id(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { user_ = std::thread::id(); }
    std::atomic<std::thread::id>& user_;
  };

  std::mutex mutex_;                   // wanted by threads without the GIL only
  std::atomic<std::thread::id> user_;  // who has the mutex
  VectorMemory memory_;
};

using Vector = Held<Elements>;
using Kept = std::shared_ptr<Elements>;

Kept make(ResourcePtr resource, nb::handle dtype, const Int& size, const Stream& stream) {
  const DType type = dtype_of(dtype);
  if (type.bits * type.lanes % 8 != 0)
    throw nb::value_error((name_of(type) + " has no whole number of bytes: use one with several lanes").c_str());
  const std::size_t elements = count(size, "size");
  return without_gil([&] { return std::make_shared<Elements>(std::move(resource), elements, type, stream); });
}

void check_elements(const Layout& layout, DType dtype) {
  if (layout.dtype != dtype)
    throw Error(Errc::invalid_argument,
                "DeviceVector: the values are " + name_of(layout.dtype) + ", the elements " + name_of(dtype));
  if (layout.shape.size() != 1)
    throw Error(Errc::invalid_argument,
                "DeviceVector: the values have " + std::to_string(layout.shape.size()) + " dimensions instead of one");
}

/// Add elements that are in memory of weir. They may be elements of this vector, whose memory stays while they are read.
void push_tensor(Elements& elements, const Tensor& values, const Stream& stream) {
  const std::size_t width = elements.dtype.bytes();
  elements.with_memory([&](VectorMemory& memory) {
    const std::size_t size = memory.size();
    const auto added = static_cast<std::size_t>(values.layout().elements());
    const std::size_t needed = size + VectorMemory::bytes_of(added, width);
    if (needed > memory.buffer().size()) {
      try {
        memory.reserve(std::max(needed, 2 * memory.buffer().size()), stream);
      } catch (const OutOfMemory&) {
        memory.reserve(needed, stream);
      }
    }
    Tensor end = memory.buffer().view(elements.dtype, {static_cast<std::int64_t>(added)}, size);
    end.copy_from(values, stream);
    memory.resize(needed, stream);
  });
}

void push(const Vector& self, nb::handle values, const Stream& stream) {
  const Kept elements = self.get("DeviceVector.push");
  if (const std::optional<Tensor> tensor = weir_tensor(values, "DeviceVector.push")) {
    check_elements(tensor->layout(), elements->dtype);
    return push_tensor(*elements, *tensor, stream);
  }
  const HostArray array = host_array(values, "values", Access::read);
  check_elements(array.tensor.layout(), elements->dtype);
  const Tensor rows = complete_rows(array.tensor);
  elements->with_memory([&](VectorMemory& memory) { memory.push(bytes_of(rows), stream); });
  if (array.give_up) array.give_up();
}

void append(const Vector& self, nb::handle value, const Stream& stream) {
  const Kept elements = self.get("DeviceVector.append");
  const auto bytes = element_of(value, elements->dtype);
  elements->with_memory([&](VectorMemory& memory) { memory.push(bytes, stream); });
}

void copy_from(const Vector& self, nb::handle values, const Stream& stream, const Int& first) {
  const Kept elements = self.get("DeviceVector.copy_from");
  copy_elements_from(elements->part(count(first, "first"), nb::len(values)), values, stream);
}

nb::object copy_to(const Vector& self, nb::object target, const Stream& stream, const Int& first) {
  const Kept elements = self.get("DeviceVector.copy_to");
  const std::optional<std::size_t> many = target.is_none() ? std::nullopt : std::optional{nb::len(target)};
  return copy_elements_to(elements->part(count(first, "first"), many), target, stream);
}

void set_element(const Vector& self, const Int& index, nb::handle value, const Stream& stream) {
  const Kept elements = self.get("DeviceVector.set_element");
  const auto bytes = element_of(value, elements->dtype);
  const std::size_t offset = elements->bytes_of(index, "index");
  elements->with_memory([&](VectorMemory& memory) { memory.write(bytes, offset, stream); });
}

/// Read through memory of weir, which stays as long as the copy is pending, even if Ctrl-C ends the wait.
nb::object wait_for_element(const Vector& self, const Int& index, const Stream& stream) {
  const Kept elements = self.get("DeviceVector.wait_for_element");
  const Tensor element = elements->part(count(index, "index"), 1);
  const Tensor landing = without_gil([&] {
    Tensor made(host::make_pageable_resource()->allocate(elements->dtype.bytes(), stream),
                Layout::compact(elements->dtype, {1}));
    made.copy_from(element, stream);
    return made;
  });
  return array_of(landing, nb::none(), nb::none())[0];
}

void resize(const Vector& self, const Int& size, const Stream& stream) {
  const Kept elements = self.get("DeviceVector.resize");
  const std::size_t bytes = elements->bytes_of(size, "size");
  elements->with_memory([&](VectorMemory& memory) { memory.resize(bytes, stream); });
}

void reserve(const Vector& self, const Int& capacity, const Stream& stream) {
  const Kept elements = self.get("DeviceVector.reserve");
  const std::size_t bytes = elements->bytes_of(capacity, "capacity");
  elements->with_memory([&](VectorMemory& memory) { memory.reserve(bytes, stream); });
}

void shrink_to_fit(const Vector& self, const Stream& stream) {
  self.get("DeviceVector.shrink_to_fit")->with_memory([&](VectorMemory& memory) { memory.shrink_to_fit(stream); });
}

void clear(const Vector& self, const Stream& stream) {
  self.get("DeviceVector.clear")->with_memory([&](VectorMemory& memory) { memory.resize(0, stream); });
}

void close(Vector& self, const std::optional<Stream>& stream) {
  if (stream && !self.is_closed())
    self.get("DeviceVector.close")->with_memory([&](VectorMemory& memory) { memory.buffer().close(*stream); });
  self.close();
}

Tensor tensor(const Vector& self, const char* operation) { return self.get(operation)->part(0, std::nullopt); }

void bind_observers(nb::class_<Vector>& c) {
  c.def_prop_ro(
       "size", [](const Vector& s) { return s.is_closed() ? 0 : s.get("DeviceVector.size")->size(); },
       "elements; 0 when closed")
      .def_prop_ro(
          "capacity", [](const Vector& s) { return s.is_closed() ? 0 : s.get("DeviceVector.capacity")->capacity(); },
          "elements that there is memory for; 0 when closed")
      .def_prop_ro(
          "dtype", [](const Vector& s) { return name_of(s.get("DeviceVector.dtype")->dtype); }, "for example 'float32'")
      .def_prop_ro("itemsize", [](const Vector& s) { return s.get("DeviceVector.itemsize")->dtype.bytes(); })
      .def_prop_ro(
          "tensor", [](const Vector& s) { return tensor(s, "DeviceVector.tensor"); },
          "the elements that there are now, in the same memory. It keeps to that memory when the vector grows")
      .def_prop_ro(
          "buffer",
          [](const Vector& s) {
            return s.get("DeviceVector.buffer")->with_memory([](VectorMemory& m) { return m.buffer().share(); });
          },
          "another owner of the memory of all `capacity` elements")
      .def_prop_ro("device", [](const Vector& s) { return tensor(s, "DeviceVector.device").buffer().device(); })
      .def_prop_ro("is_closed", &Vector::is_closed)
      .def("__len__", [](const Vector& s) { return s.get("len(DeviceVector)")->size(); })
      .def(
          "__bool__", [](const Vector&) { return true; },
          "True, also without elements: `if` tells a DeviceVector from None.")
      .def(
          "__dlpack__",
          [](const Vector& s, const nb::kwargs& options) {
            return nb::cast(tensor(s, "DeviceVector.__dlpack__")).attr("__dlpack__")(**options);
          },
          nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
                  "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any"),
          "DLPack capsule over `tensor`.")
      .def(
          "__dlpack_device__",
          [](const Vector& s) {
            return nb::cast(tensor(s, "DeviceVector.__dlpack_device__")).attr("__dlpack_device__")();
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"), "(DLDeviceType, device id) of the memory.")
      .def(
          "__array__",
          [](const Vector& s, nb::object dtype, nb::object copy) {
            return array_of(tensor(s, "DeviceVector.__array__"), dtype, copy);
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          "NumPy's array over the memory of `tensor`, for numpy.asarray; memory that the host cannot reach raises "
          "TypeError.")
      .def(
          "__jax_array__", [](const Vector& s) { return jax_array(tensor(s, "DeviceVector.__jax_array__")); },
          "JAX's array over the memory of `tensor`, for jax.numpy.asarray.")
      .def("__repr__", [](const Vector& s) {
        if (s.is_closed()) return std::string("<weir.DeviceVector closed>");
        const Kept elements = s.get("DeviceVector");
        const Tensor all = elements->part(0, std::nullopt);
        return "<weir.DeviceVector " + std::to_string(all.layout().elements()) + " of " +
               std::to_string(elements->capacity()) + " " + name_of(elements->dtype) + " on " +
               all.buffer().device().id() + ">";
      });
}

}  // namespace

void bind_device_vectors(nb::module_& m) {
  nb::class_<Vector> c(
      m, "DeviceVector", nb::is_weak_referenceable(),
      "Array of one dimension whose size changes in stream order. Every call takes place in order of the stream that "
      "it names, and does not wait; calls on different streams need waits between them. Growth allocates new memory "
      "and copies the elements; the old memory is reused after every recorded use. New elements have no value until "
      "something writes them. A call that raises has changed no element.");
  c.def(
       "__init__",
       [](Vector* self, ResourcePtr resource, nb::handle dtype, const Int& size, const Stream& stream) {
         new (self) Vector("DeviceVector", make(std::move(resource), dtype, size, stream));
       },
       nb::arg("resource"), nb::arg("dtype") = "uint8", nb::arg("size") = 0, nb::kw_only(), nb::arg("stream"),
       "Allocate `size` elements from `resource`. Raises OutOfMemory; ValueError for what is no element type.")
      .def("push", &push, nb::arg("values").none(), nb::kw_only(), nb::arg("stream"),
           "Add elements at the end: a Tensor, or an array of the host (buffer protocol, or __dlpack__), of one "
           "dimension and of the vector's type. An array of the host has been read when the call returns. Where there "
           "is too little memory, twice as much is allocated, or just enough if there is no more.")
      .def("append", &append, nb::arg("value"), nb::kw_only(), nb::arg("stream"),
           "Add one element at the end: a number that fits, a scalar of NumPy, or the element's bytes.")
      .def("resize", &resize, nb::arg("size"), nb::kw_only(), nb::arg("stream"),
           "Have `size` elements. The first ones stay. Memory is allocated only when there is too little, and then for "
           "exactly `size` elements.")
      .def("reserve", &reserve, nb::arg("capacity"), nb::kw_only(), nb::arg("stream"),
           "Have memory for at least `capacity` elements.")
      .def("shrink_to_fit", &shrink_to_fit, nb::kw_only(), nb::arg("stream"),
           "Have memory for no more elements than there are.")
      .def("clear", &clear, nb::kw_only(), nb::arg("stream"), "Have no elements, and keep the memory.")
      .def("copy_from", &copy_from, nb::arg("values").none(), nb::kw_only(), nb::arg("stream"), nb::arg("first") = 0,
           "Enqueue a copy to the elements from `first` on; of what push takes. Raises Error when there are fewer "
           "elements. When memory runs out or a driver refuses a part of the copy, some of these elements may be "
           "written.")
      .def("copy_to", &copy_to, nb::arg("target").none() = nb::none(), nb::kw_only(), nb::arg("stream"),
           nb::arg("first") = 0,
           "Enqueue a copy of the elements from `first` on to a Tensor or a writable array of the host, which stays "
           "locked until `stream` has passed the copy; None is a new Tensor of all of them. Returns the target. Raises "
           "Error when there are fewer elements.")
      .def("set_element", &set_element, nb::arg("index"), nb::arg("value"), nb::kw_only(), nb::arg("stream"),
           "Enqueue a write of one element: a number that fits, a scalar of NumPy, or the element's bytes.")
      .def("wait_for_element", &wait_for_element, nb::arg("index"), nb::kw_only(), nb::arg("stream"),
           nb::sig("def wait_for_element(self, index: SupportsIndex, *, stream: Stream) -> Any"),
           "One element, as a scalar of NumPy, as it is after everything on `stream` so far. Blocks until then.")
      .def("close", &close, nb::arg("stream").none() = nb::none(),
           "Give the memory back, after all recorded uses, and after `stream` if given. Never blocks.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Vector& s, nb::args) { s.close(); });
  bind_observers(c);
}

}  // namespace weir::python
