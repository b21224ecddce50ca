// SPDX-License-Identifier: Apache-2.0
// weir.ipc: Buffers between processes.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bind.hpp"

// A Descriptor cannot be copied, but its vector of owned file descriptors claims to be copyable.
template <>
struct nanobind::detail::is_copy_constructible<weir::ipc::Descriptor> : std::false_type {};

namespace weir::python {
namespace {

using ipc::Descriptor;

/// Return a second descriptor with file descriptors of its own. Opening uses a descriptor up, but the Python object
/// must stay usable.
Descriptor duplicate(const Descriptor& descriptor) {
  std::vector<spi::UniqueFd> fds;
  for (const spi::UniqueFd& fd : descriptor.fds()) fds.push_back(fd.duplicate());
  return {descriptor.bytes(), std::move(fds)};
}

Descriptor from_parts(nb::bytes bytes, const std::vector<int>& numbers) {
  std::vector<spi::UniqueFd> fds;
  for (const int number : numbers) {
    spi::UniqueFd borrowed{number};
    try {
      fds.push_back(borrowed.duplicate());
    } catch (...) {
      static_cast<void>(borrowed.release());
      throw;
    }
    static_cast<void>(borrowed.release());
  }
  return {{reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()}, std::move(fds)};
}

int socket_of(nb::handle socket) {
  const int fd = PyObject_AsFileDescriptor(socket.ptr());
  if (fd < 0) throw nb::python_error();
  return fd;
}

std::chrono::milliseconds milliseconds(std::optional<double> seconds) {
  if (!seconds) return std::chrono::milliseconds{-1};
  if (std::isnan(*seconds) || *seconds < 0) throw nb::value_error("timeout must be None or a number of seconds >= 0");
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(std::min(*seconds, 1e9) * 1000))};
}

}  // namespace

void bind_ipc(nb::module_& m) {
  nb::module_ sub = m.def_submodule("ipc", "Buffers between processes.");
  nb::class_<Descriptor>(sub, "Descriptor", "Names a Buffer for another process: bytes, and file descriptors beside.")
      .def(
          "__init__",
          [](Descriptor* self, nb::bytes data, const std::vector<int>& fds) {
            new (self) Descriptor{from_parts(data, fds)};
          },
          nb::arg("data"), nb::arg("fds"), "Takes duplicates of `fds`. Nothing is checked before open().")
      .def_prop_ro("data",
                   [](const Descriptor& d) {
                     return nb::bytes(reinterpret_cast<const char*>(d.bytes().data()), d.bytes().size());
                   })
      .def_prop_ro(
          "fds",
          [](const Descriptor& d) {
            std::vector<int> numbers;
            for (const spi::UniqueFd& fd : d.fds()) numbers.push_back(fd.get());
            return numbers;
          },
          "Owned by the Descriptor.");

  sub.def(
      "send",
      [](nb::handle socket, const Descriptor& descriptor) {
        const int fd = socket_of(socket);
        without_gil([&] { ipc::send(fd, descriptor); });
      },
      nb::arg("socket"), nb::arg("descriptor"), "Send over a connected Unix-domain socket, in one message.");
  sub.def(
      "receive",
      [](nb::handle socket, std::optional<double> timeout) {
        const int fd = socket_of(socket);
        const auto limit = milliseconds(timeout);
        return without_gil([&] { return ipc::receive(fd, limit); });
      },
      nb::arg("socket"), nb::arg("timeout") = nb::none(), "Receive what send() sent; `timeout` in seconds.");
  sub.def(
      "open",
      [](const Descriptor& descriptor, const Stream& stream) {
        return without_gil([&] { return ipc::open(duplicate(descriptor), stream); });
      },
      nb::arg("descriptor"), nb::kw_only(), nb::arg("stream"),
      "The memory that `descriptor` names, usable on `stream` at once. Both processes see each other's writes.");
}

}  // namespace weir::python
