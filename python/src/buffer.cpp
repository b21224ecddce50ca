// SPDX-License-Identifier: Apache-2.0
// The class Buffer. Operations that release the GIL hold an owner of their own, because another thread may close the
// object meanwhile.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "arguments.hpp"
#include "arrays.hpp"
#include "cuda_stream.hpp"
#include "dlpack.hpp"
#include "dtype.hpp"
#include "extents.hpp"
#include "fill.hpp"
#include "guarded.hpp"
#include "host_bytes.hpp"
#include "integers.hpp"
#include "ordering.hpp"
#include "owners.hpp"

namespace weir::python {
namespace {

/// The bytes of a copy. Without a size, these are all bytes from the offsets on, which must be as many on both sides.
struct Range {
  std::size_t dst_offset, src_offset, bytes;
};

std::size_t rest(std::size_t size, std::size_t offset, const char* what) {
  if (offset > size)
    throw Error(Errc::invalid_argument, std::string{what} + " " + std::to_string(offset) + " lies outside of " +
                                            std::to_string(size) + " bytes");
  return size - offset;
}

Range range(std::size_t dst_size, const Int& dst_offset, std::size_t src_size, const Int& src_offset,
            const std::optional<Int>& size) {
  const std::size_t to = count(dst_offset, "dst_offset"), from = count(src_offset, "src_offset");
  const std::size_t room = rest(dst_size, to, "dst_offset"), there = rest(src_size, from, "src_offset");
  if (!size && room != there)
    throw Error(Errc::invalid_argument, "cannot copy " + std::to_string(there) + " bytes to " + std::to_string(room) +
                                            ": sizes must match, or name a size");
  const std::size_t bytes = size ? count(*size, "size") : there;
  if (bytes > room || bytes > there)
    throw Error(Errc::invalid_argument, "cannot copy " + std::to_string(bytes) + " bytes: the source has " +
                                            std::to_string(there) + ", the destination " + std::to_string(room) +
                                            " from the offsets on");
  return {to, from, bytes};
}

/// Return another owner of the bytes. Throws closed, naming the operation that was called.
Buffer owner_of(const Buffer& buffer, const char* operation, const char* which = "the buffer") {
  try {
    return buffer.share();
  } catch (const Error& e) {
    if (e.code() != Errc::closed) throw;
    throw Error(Errc::closed, std::string(operation) + ": " + which + " is closed");
  }
}

/// Return the bytes of a weir Buffer, or of a Tensor without gaps; nothing for other objects.
std::optional<Buffer> weir_memory(nb::handle object, const char* operation, const char* which) {
  if (nb::isinstance<Buffer>(object)) return owner_of(nb::cast<const Buffer&>(object), operation, which);
  if (!nb::isinstance<Tensor>(object)) return std::nullopt;
  const Tensor& tensor = nb::cast<const Tensor&>(object);
  const Layout& layout = tensor.layout();
  if (!layout.is_compact()) throw Error(Errc::invalid_argument, "copies take tensors without gaps only");
  const auto bytes = static_cast<std::size_t>(layout.elements()) * layout.dtype.bytes();
  return tensor.buffer().slice(bytes == 0 ? 0 : layout.byte_offset, bytes);
}

void copy_from(const Buffer& self, nb::handle source, const Stream& stream, const Int& src_offset,
               const Int& dst_offset, const std::optional<Int>& size) {
  Buffer dst = owner_of(self, "Buffer.copy_from");
  if (const std::optional<Buffer> src = weir_memory(source, "Buffer.copy_from", "the source")) {
    const Range r = range(dst.size(), dst_offset, src->size(), src_offset, size);
    without_gil([&] { dst.copy_from(*src, r.src_offset, r.dst_offset, r.bytes, stream); });
    return;
  }
  const HostBytes src = readable(source);
  const Range r = range(dst.size(), dst_offset, src.bytes.size(), src_offset, size);
  without_gil([&] { dst.copy_from(src.bytes.subspan(r.src_offset, r.bytes), stream, r.dst_offset); });
}

/// Copy to a host object, and keep its view until the stream has passed the copy.
void copy_to_host(const Buffer& src, nb::handle target, const Stream& stream, const Int& src_offset,
                  const Int& dst_offset, const std::optional<Int>& size) {
  const HostBytes dst = writable(target);
  const Range r = range(dst.bytes.size(), dst_offset, src.size(), src_offset, size);
  without_gil([&] { src.copy_to(dst.bytes.subspan(r.dst_offset, r.bytes), stream, r.src_offset); });
  Owner kept{dst.view};  // for good, if the stream can no longer say when it has passed the copy
  if (without_gil([&] { return stream.done(); })) return kept.drop();
  without_gil([&, give_up = kept.dropper()] { stream.call(give_up); });
}

nb::object copy_to(const Buffer& self, nb::object target, const Stream& stream, const Int& src_offset,
                   const Int& dst_offset, const std::optional<Int>& size) {
  const Buffer src = owner_of(self, "Buffer.copy_to");
  if (target.is_none()) {
    if (integer(dst_offset, "dst_offset") != 0) throw nb::value_error("dst_offset needs a destination");
    const std::size_t from = count(src_offset, "src_offset");
    const std::size_t bytes = size ? count(*size, "size") : rest(src.size(), from, "src_offset");
    return nb::cast(without_gil([&] { return src.slice(from, bytes).copy_to(stream); }));
  }
  if (std::optional<Buffer> dst = weir_memory(target, "Buffer.copy_to", "the destination")) {
    const Range r = range(dst->size(), dst_offset, src.size(), src_offset, size);
    without_gil([&] { src.copy_to(*dst, r.dst_offset, r.src_offset, r.bytes, stream); });
  } else {
    copy_to_host(src, target, stream, src_offset, dst_offset, size);
  }
  return target;
}

void fill(const Buffer& self, nb::handle value, const Stream& stream, const std::optional<Int>& width,
          const Int& offset, const std::optional<Int>& size, nb::handle dtype) {
  Buffer buffer = owner_of(self, "Buffer.fill");
  const Pattern pattern = pattern_of(value, width ? nb::handle(*width) : nb::handle(Py_None), dtype);
  const std::size_t from = count(offset, "offset");
  const std::size_t bytes = size ? count(*size, "size") : rest(buffer.size(), from, "offset");
  without_gil([&] { buffer.fill_pattern(pattern.value, pattern.bytes, from, bytes, stream); });
}

/// Drop what a copy on `stream` writes, once the stream has passed it; never, if it cannot say so.
void give_up_later(const Owner& kept, const Stream& stream) {
  try {
    without_gil([&, give_up = kept.dropper()] { stream.call(give_up); });
  } catch (const std::exception& error) {
    report({{}, "weir.Buffer.__bytes__: memory that a copy writes is never given up", error.what()});
  }
}

/// Return a copy of the bytes, ordered after all recorded uses. Memory that the host cannot reach is copied on a stream
/// of its own.
nb::bytes contents_of(const Buffer& self) {
  const Buffer src = owner_of(self, "Buffer.__bytes__");
  const auto out = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(src.size())));
  if (!out) throw nb::python_error();
  const std::span bytes{reinterpret_cast<std::byte*>(PyBytes_AsString(out.ptr())), src.size()};
  if (bytes.empty()) return out;
  if (src.is_host_accessible()) {
    complete_on_host(src);
    without_gil([&] { std::memcpy(bytes.data(), src.host_data(), bytes.size()); });
    return out;
  }
  const Stream stream = without_gil([&] {
    Stream made{src.device()};
    src.order_after_uses(made);
    src.copy_to(bytes, made);
    return made;
  });
  Owner kept{out};  // which must outlive the copy
  try {
    wait_for(without_gil([&] { return stream.record(); }), std::nullopt);
  } catch (const nb::python_error&) {  // Ctrl-C
    give_up_later(kept, stream);
    throw;
  }
  kept.drop();
  return out;
}

/// Close the buffer. First its owner is taken out of the object under the GIL, so that nobody can make another owner of
/// it meanwhile. Giving a little memory back takes less time than giving up the GIL.
void close(Buffer& self, const Stream* stream) {
  constexpr std::size_t little = 1 << 20;
  Buffer last = std::move(self);
  if (!stream && last.size() <= little)
    last.close();
  else
    try {
      without_gil([&] { stream ? last.close(*stream) : last.close(); });
    } catch (...) {  // the buffer is still open
      self = std::move(last);
      throw;
    }
  make_pending_calls();
}

PyObject* close_object(PyObject* self, PyObject* const* values, Py_ssize_t positional, PyObject* names) noexcept {
  return plainly([&]() -> nb::object {
    std::array<PyObject*, 1> given;
    take({"close", values, static_cast<std::size_t>(positional), names}, given, {Name::stream}, 1);
    Buffer& buffer = instance<Buffer>(self, "self");
    const bool named = given[0] && given[0] != Py_None;
    const std::optional<Stream> stream = named ? std::optional(instance<Stream>(given[0], "stream")) : std::nullopt;
    close(buffer, stream ? &*stream : nullptr);
    return nb::none();
  });
}

Tensor view(const Buffer& buffer, nb::handle dtype, nb::handle shape, nb::handle padded_shape, const Int& byte_offset) {
  const Buffer self = owner_of(buffer, "Buffer.view");
  const DType element = dtype_of(dtype);
  const std::size_t offset = count(byte_offset, "byte_offset");
  if (!shape.is_none()) {
    Layout layout = layout_of(element, shape, padded_shape, offset);
    const std::size_t needed = padded_bytes(layout, padded_shape);
    if (needed > self.size() && !padded_shape.is_none())
      throw Error(Errc::invalid_argument, "Buffer.view: the padded array ends at byte " + std::to_string(needed) +
                                              " of a buffer of " + std::to_string(self.size()));
    return {self.share(), std::move(layout)};
  }
  if (!padded_shape.is_none()) fail(PyExc_TypeError, "padded_shape needs a shape");
  const std::size_t bytes = rest(self.size(), offset, "byte_offset");
  if (bytes % element.bytes() != 0)
    throw Error(Errc::invalid_argument, std::to_string(bytes) + " bytes are not a whole number of " + name_of(element));
  return self.view(element, {static_cast<std::int64_t>(bytes / element.bytes())}, offset);
}

/// Return __cuda_array_interface__ version 3: bytes, whose work is ordered before the legacy default stream.
nb::dict cuda_array_interface(const Buffer& self) {
  constexpr std::int32_t cuda_type = 2;  // DLPack's
  const bool reached = !self.is_closed() && (self.device().backend() == "cuda" ? self.is_device_accessible()
                                                                               : dlpack_device(self).type == cuda_type);
  if (!reached) throw nb::attribute_error("only memory that CUDA reaches has __cuda_array_interface__");
  const Stream legacy = cuda_stream(cuda_device(self, dlpack_device(self)), cuda_legacy_stream);
  without_gil([&, owner = self.share()] {
    owner.order_after_uses(legacy);
    owner.use_on(legacy);
  });
  nb::dict out;
  out["shape"] = nb::make_tuple(self.size());
  out["typestr"] = "|u1";
  out["data"] = nb::make_tuple(cuda_pointer(self), self.is_read_only());
  out["version"] = 3;
  out["stream"] = cuda_legacy_stream;
  return out;
}

Buffer from_handle(const Device& device, const Int& number, const Int& size, nb::object owner, const Stream& stream) {
  const std::uint64_t where = address(number, "address");
  const std::size_t bytes = count(size, "size");
  Owner reference{owner};
  try {
    return Buffer::from_handle(device, where, bytes, reference.dropper(), stream);
  } catch (...) {
    reference.drop();  // weir did not drop it
    throw;
  }
}

constexpr PyMethodDef close_method{
    "close", nullptr, METH_FASTCALL | METH_KEYWORDS,
    "close($self, /, stream=None)\n--\n\n"
    "Drop this owner. The memory is reused after all recorded uses, and after `stream` if given. Never blocks."};

/// Return the methods that are called most often.
PyMethodDef* methods() {
  static std::array<PyMethodDef, 4> all{};
  std::copy_n(buffer_dlpack_methods(), 2, all.begin());
  all[2] = close_method;
  all[2].ml_meth = as_function(&close_object);
  return all.data();
}

PyType_Slot buffer_slots[] = {{Py_tp_methods, methods()},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
                              {0, nullptr}};

void bind_observers(nb::class_<Buffer>& c) {
  c.def_prop_ro("size", &Buffer::size, "bytes; 0 when closed")
      .def_prop_ro("nbytes", &Buffer::size)
      .def_prop_ro(
          "host_data", [](const Buffer& b) { return reinterpret_cast<std::uintptr_t>(b.host_data()); },
          "address for the host; 0 when it cannot reach the memory")
      .def_prop_ro("device_address", &Buffer::device_address, "address for the device; 0 when there is none")
      .def_prop_ro("handle", &Buffer::device_address, "the same as device_address")
      .def_prop_ro("device", &Buffer::device)
      .def_prop_ro("memory_resource", &Buffer::memory_resource)
      .def_prop_ro("kind", &Buffer::kind)
      .def_prop_ro("is_host_accessible", &Buffer::is_host_accessible)
      .def_prop_ro("is_device_accessible", &Buffer::is_device_accessible)
      .def_prop_ro("is_read_only", &Buffer::is_read_only)
      .def_prop_ro("is_closed", &Buffer::is_closed)
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface)
      .def(
          "__array__",
          [](const Buffer& self, nb::object dtype, nb::object copy) {
            raise_lost_interrupt(&self);
            return array_of(as_bytes(self, "__array__"), dtype, copy);
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          "NumPy's array over memory that the host reaches, for numpy.asarray; other memory raises TypeError.")
      .def(
          "__jax_array__", [](const Buffer& self) { return jax_array(as_bytes(self, "__jax_array__")); },
          "JAX's array over the memory, for jax.numpy.asarray.")
      .def("__repr__", [](const Buffer& b) {
        if (b.is_closed()) return std::string{"<weir.Buffer closed>"};
        return "<weir.Buffer " + std::to_string(b.size()) + " bytes, " + std::string{to_string(b.kind())} + " on " +
               b.device().id() + ">";
      });
}

}  // namespace

void bind_buffers(nb::module_& m) {
  nb::class_<Buffer> c(
      m, "Buffer", nb::type_slots(buffer_slots), nb::is_weak_referenceable(),
      "Owner of a range of memory. Made by MemoryResource.allocate. The memory goes back when the last "
      "owner is gone: Buffer, slice, Tensor, DLPack consumer, memoryview.");
  bind_observers(c);
  const auto none = nb::none();
  c.def(
       "share", [](const Buffer& b) { return owner_of(b, "Buffer.share"); }, "A second owner of the same bytes.")
      .def(
          "slice",
          [](const Buffer& b, const Int& offset, const Int& size) {
            return owner_of(b, "Buffer.slice").slice(count(offset, "offset"), count(size, "size"));
          },
          nb::arg("offset"), nb::arg("size"), "A second owner of part of the bytes.")
      .def("copy_to", &copy_to, nb::arg("dst").none() = none, nb::kw_only(), nb::arg("stream"),
           nb::arg("src_offset") = 0, nb::arg("dst_offset") = 0, nb::arg("size") = none,
           "Enqueue a copy to a Buffer, Tensor or writable object with the buffer protocol, which stays locked until "
           "`stream` has passed the copy; None allocates from this buffer's resource. Returns the destination. Without "
           "`size` both sides must be equally long from the offsets on.")
      .def("copy_from", &copy_from, nb::arg("src"), nb::kw_only(), nb::arg("stream"), nb::arg("src_offset") = 0,
           nb::arg("dst_offset") = 0, nb::arg("size") = none,
           "Enqueue a copy from a Buffer, Tensor or object with the buffer protocol, which is read before the call "
           "returns. Without `size` both sides must be equally long from the offsets on. When memory runs out or a "
           "driver refuses a part of the copy, other parts may be written.")
      .def("fill", &fill, nb::arg("value"), nb::kw_only(), nb::arg("stream"), nb::arg("width") = none,
           nb::arg("offset") = 0, nb::arg("size") = none, nb::arg("dtype").none() = none,
           "Enqueue a fill of `size` bytes from `offset` on, which are a multiple of the value's. The value is an int "
           "of `width` bytes (1, 2, 4 or 8; 1 without), a bool, a float of `width` bytes (2, 4 or 8; 8 without), 1, 2, "
           "4 or 8 bytes, or a scalar of NumPy, which has the bytes of its own type. With `dtype` it is one element "
           "of that type, into which it must fit. Raises TypeError and ValueError for other values.")
      .def(
          "use_on",
          [](const Buffer& b, const Stream& s) { 
            const Buffer owner = owner_of(b, "Buffer.use_on");
            without_gil([&] { owner.use_on(s); });
          },
          nb::arg("stream"), "Say that work outside weir uses the memory on `stream` up to now.")
      .def("view", &view, nb::arg("dtype") = "uint8", nb::arg("shape").none() = none, nb::kw_only(),
           nb::arg("padded_shape").none() = none, nb::arg("byte_offset") = 0,
           "Array over this memory, row-major; all of it without a shape. With `padded_shape`, which must fit the "
           "memory, it is the first `shape[i]` positions along each dimension of an array of that shape; else it has "
           "no gaps. Raises Error where it does not fit.")
      .def(
          "ipc_descriptor",
          [](const Buffer& b, const Stream& stream, bool read_only) {
            const Buffer owner = owner_of(b, "Buffer.ipc_descriptor");
            return without_gil([&] { return owner.ipc_descriptor(stream, access_of(read_only)); });
          },
          nb::kw_only(), nb::arg("stream"), nb::arg("read_only") = false,
          "Descriptor for another process, which is ordered after `stream` and every recorded use. With `read_only`, "
          "that process cannot write; memory of Vulkan cannot be shared so.")
      .def("__len__", &Buffer::size)
      .def(
          "__bool__", [](const Buffer&) { return true; }, "True, also for zero bytes: `if` tells a Buffer from None.")
      .def("__bytes__", &contents_of,
           "A copy of the bytes, once everything that uses them is complete. Blocks until then.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Buffer& b, nb::args) { close(b, nullptr); })
      .def_static("from_handle", &from_handle, nb::arg("device"), nb::arg("address"), nb::arg("size"),
                  nb::arg("owner").none(), nb::kw_only(), nb::arg("stream"),
                  "Buffer over memory that `owner` keeps alive; it is dropped when all uses are complete.");
}

}  // namespace weir::python
