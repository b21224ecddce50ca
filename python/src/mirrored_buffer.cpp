// SPDX-License-Identifier: Apache-2.0
// MirroredBuffer: one logical buffer with a copy for each of several streams. Operations that release the GIL hold it,
// because another thread may close the object meanwhile.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "held.hpp"
#include "host_bytes.hpp"
#include "integers.hpp"
#include "owners.hpp"
#include "weir/error.hpp"

namespace weir::python {
namespace {

/// The copies, and what keeps `any()` right on several threads.
struct Copies {
  template <class... Arguments>
  explicit Copies(Arguments&&... arguments) : buffer(std::forward<Arguments>(arguments)...) {}
  MirroredBuffer buffer;
  std::mutex choosing;  // never held with the GIL
};

using Mirrored = Held<Copies>;
using Copy = std::shared_ptr<Copies>;

template <class T>
std::vector<T> all_of(nb::handle given, const char* what, const char* wanted) {
  const std::string each = std::string("a sequence of ") + wanted;
  if (PySequence_Check(given.ptr()) == 0) wrong_type(given, what, each.c_str());
  std::vector<T> all;
  for (const nb::handle one : nb::iter(given)) {
    const std::string name = std::string(what) + "[" + std::to_string(all.size()) + "]";
    using Class = std::conditional_t<std::is_same_v<T, ResourcePtr>, MemoryResource, T>;
    if (!nb::isinstance<Class>(one)) wrong_type(one, name.c_str(), (std::string("a ") + wanted).c_str());
    all.push_back(nb::cast<T>(one));
  }
  return all;
}

Copy make(const Int& size, nb::handle streams, nb::handle resources) {
  const std::size_t bytes = count(size, "size");
  auto queues = all_of<Stream>(streams, "streams", "weir.Stream");
  if (resources.is_none()) return without_gil([&] { return std::make_shared<Copies>(bytes, std::move(queues)); });
  const auto from = all_of<ResourcePtr>(resources, "resources", "weir.MemoryResource");
  return without_gil([&] { return std::make_shared<Copies>(bytes, std::move(queues), std::span(from)); });
}

void write(const Mirrored& self, nb::handle data, const std::optional<Int>& index) {
  const Copy copies = self.get("MirroredBuffer.write");
  const HostBytes bytes = readable(data);
  const std::size_t at = index ? count(*index, "index") : 0;
  without_gil([&] { index ? copies->buffer.write(bytes.bytes, at) : copies->buffer.write(bytes.bytes); });
}

using Index = std::optional<std::size_t>;  // of one copy, or all of them

/// Call `f` with each stream that reads of these copies are on.
template <class F>
void for_streams(const MirroredBuffer& buffer, Index index, F&& f) {
  const std::size_t first = index.value_or(0), end = index ? *index + 1 : buffer.copies();
  for (std::size_t i = first; i < end; ++i) f(buffer.stream(i));
}

/// Keep `object` until the streams have passed what is on them. It is never given up where a stream cannot say that:
/// the device may still write.
void keep(nb::handle object, const MirroredBuffer& buffer, Index index) {
  for_streams(buffer, index, [&](const Stream& stream) {
    Owner kept{object};
    try {
      if (without_gil([&] { return stream.done(); })) return kept.drop();
      without_gil([&, give_up = kept.dropper()] { stream.call(give_up); });
    } catch (const std::exception& error) {
      report({{}, "weir.MirroredBuffer: memory that a copy writes is never given up", error.what()});
    }
  });
}

/// Enqueue a read into bytes that `object` has. Where it fails, other copies may be on their way to it.
void enqueue_read(MirroredBuffer& buffer, std::span<std::byte> bytes, Index index, nb::handle object) {
  if (index) (void)buffer.stream(*index);  // refuses what is no copy
  try {
    without_gil([&] { index ? buffer.read(bytes, *index) : buffer.read_all(bytes); });
  } catch (...) {
    keep(object, buffer, index);
    throw;
  }
}

Index index_of(const std::optional<Int>& index) {
  if (!index) return std::nullopt;
  return count(*index, "index");
}

nb::object read(const Mirrored& self, const std::optional<Int>& index) {
  const Copy copies = self.get("MirroredBuffer.read");
  const Index which = index_of(index);
  MirroredBuffer& buffer = copies->buffer;
  const std::size_t size = buffer.size() * (which ? 1 : buffer.copies());
  const auto out = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!out) throw nb::python_error();
  enqueue_read(buffer, {reinterpret_cast<std::byte*>(PyBytes_AsString(out.ptr())), size}, which, out);
  try {
    for_streams(buffer, which,
                [](const Stream& stream) { wait_for(without_gil([&] { return stream.record(); }), std::nullopt); });
  } catch (...) {  // Ctrl-C
    keep(out, buffer, which);
    throw;
  }
  if (which) return out;
  nb::list all;
  for (std::size_t i = 0; i < buffer.copies(); ++i)
    all.append(nb::bytes(out.c_str() + i * buffer.size(), buffer.size()));
  return all;
}

nb::object read_into(const Mirrored& self, nb::object target, const std::optional<Int>& index) {
  const Copy copies = self.get("MirroredBuffer.read_into");
  const HostBytes bytes = writable(target);
  const Index which = index_of(index);
  enqueue_read(copies->buffer, bytes.bytes, which, bytes.view);
  keep(bytes.view, copies->buffer, which);
  return target;
}

std::size_t any(const Mirrored& self) {
  const Copy copies = self.get("MirroredBuffer.any");
  return without_gil([&] {
    const std::lock_guard lock(copies->choosing);
    return copies->buffer.any();
  });
}

bool synchronize(const Mirrored& self, std::optional<double> timeout) {
  const Copy copies = self.get("MirroredBuffer.synchronize");
  const MirroredBuffer& buffer = copies->buffer;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Event> points;
  for (std::size_t i = 0; i < buffer.copies(); ++i)
    points.push_back(without_gil([&] { return buffer.stream(i).record(); }));
  for (const Event& point : points) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    std::optional<double> left = timeout;
    if (left && *left > passed.count())
      *left -= passed.count();
    else if (left && *left >= 0)
      *left = 0;
    if (!wait_for(point, left)) return false;
  }
  return true;
}

}  // namespace

void bind_mirrored_buffers(nb::module_& m) {
  nb::class_<Mirrored>(
      m, "MirroredBuffer", nb::is_weak_referenceable(),
      "One logical buffer with a copy for each of several streams, of one device or many. Each copy is "
      "written and read in order of its own stream. Nothing keeps the copies equal but write() and "
      "broadcast(). Indices are those of the copies, from 0; others raise Error.")
      .def(
          "__init__",
          [](Mirrored* self, const Int& size, nb::handle streams, nb::handle resources) {
            new (self) Mirrored("MirroredBuffer", make(size, streams, resources));
          },
          nb::arg("size"), nb::arg("streams"), nb::arg("resources").none() = nb::none(),
          nb::sig("def __init__(self, size: SupportsIndex, streams: Sequence[Stream], "
                  "resources: Sequence[MemoryResource] | None = None) -> None"),
          "Allocate `size` bytes for each stream, in its order, from the resource at the same place of `resources`; "
          "None "
          "is the default kind of each stream's device. Raises OutOfMemory, and Error without a stream.")
      .def_prop_ro(
          "size", [](const Mirrored& s) { return s.is_closed() ? 0 : s.get("MirroredBuffer.size")->buffer.size(); },
          "bytes of each copy; 0 when closed")
      .def_prop_ro("is_closed", &Mirrored::is_closed)
      .def(
          "copy",
          [](const Mirrored& s, const Int& index) {
            return s.get("MirroredBuffer.copy")->buffer.copy(count(index, "index")).share();
          },
          nb::arg("index"), "Another owner of one copy, for kernels, copies and views.")
      .def(
          "stream",
          [](const Mirrored& s, const Int& index) {
            return s.get("MirroredBuffer.stream")->buffer.stream(count(index, "index"));
          },
          nb::arg("index"), "The stream that orders a copy.")
      .def("any", &any,
           "The index of a copy to work on: one whose stream has nothing pending, else the copies in turn.")
      .def("write", &write, nb::arg("data"), nb::arg("index") = nb::none(),
           "Enqueue a write of one copy, or of all, each on its own stream. `data` is an object with the buffer "
           "protocol "
           "and as many bytes as a copy; it has been read when the call returns.")
      .def("read", &read, nb::arg("index") = nb::none(),
           nb::sig("def read(self, index: SupportsIndex | None = None) -> bytes | list[bytes]"),
           "The bytes of one copy, or a list with those of all. Blocks until their streams have passed the reads.")
      .def("read_into", &read_into, nb::arg("target"), nb::arg("index") = nb::none(),
           "Enqueue a read of one copy, or of all, one behind the other, into a writable object with the buffer "
           "protocol "
           "and as many bytes. It stays locked until the streams have passed the reads. Returns the target.")
      .def(
          "broadcast",
          [](const Mirrored& s, const Int& index) {
            const Copy copies = s.get("MirroredBuffer.broadcast");
            const std::size_t from = count(index, "index");
            without_gil([&] { copies->buffer.broadcast(from); });
          },
          nb::arg("index"),
          "Enqueue a copy of one copy to all others, each on its own stream, after everything on stream(index) so far.")
      .def("synchronize", &synchronize, nb::arg("timeout") = nb::none(),
           "Block until everything put on all streams so far is complete: True, or False when `timeout` seconds passed "
           "first. The work then goes on.")
      .def("close", &Mirrored::close, "Drop all copies. The memory is reused after all recorded uses. Never blocks.")
      .def(
          "__len__", [](const Mirrored& s) { return s.get("len(MirroredBuffer)")->buffer.copies(); }, "copies")
      .def(
          "__bool__", [](const Mirrored&) { return true; }, "True: `if` tells a MirroredBuffer from None.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Mirrored& s, nb::args) { s.close(); })
      .def("__repr__", [](const Mirrored& s) {
        if (s.is_closed()) return std::string("<weir.MirroredBuffer closed>");
        const Copy copies = s.get("MirroredBuffer");
        return "<weir.MirroredBuffer " + std::to_string(copies->buffer.copies()) + " copies of " +
               std::to_string(copies->buffer.size()) + " bytes>";
      });
}

}  // namespace weir::python
