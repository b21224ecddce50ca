// SPDX-License-Identifier: Apache-2.0
// weir.ipc: Buffers between processes.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "files.hpp"
#include "patience.hpp"

// A Descriptor cannot be copied, but its vector of owned file descriptors claims to be copyable.
template <>
struct nanobind::detail::is_copy_constructible<weir::ipc::Descriptor> : std::false_type {};

namespace weir::python {

int socket_of(nb::handle socket) {
  const int fd = PyObject_AsFileDescriptor(socket.ptr());
  if (fd < 0) throw nb::python_error();
  return fd;
}

spi::UniqueFd duplicate_file(int number) {
  spi::UniqueFd borrowed{number};
  try {
    spi::UniqueFd made = borrowed.duplicate();
    static_cast<void>(borrowed.release());
    return made;
  } catch (...) {
    static_cast<void>(borrowed.release());
    throw;
  }
}

ipc::Descriptor duplicate(const ipc::Descriptor& descriptor) {
  std::vector<spi::UniqueFd> fds;
  for (const spi::UniqueFd& fd : descriptor.fds()) fds.push_back(fd.duplicate());
  return {descriptor.bytes(), std::move(fds)};
}

namespace {

using ipc::Descriptor;

Descriptor from_parts(nb::bytes bytes, const std::vector<int>& numbers) {
  std::vector<spi::UniqueFd> fds;
  for (const int number : numbers) fds.push_back(duplicate_file(number));
  return {{reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()}, std::move(fds)};
}

void send(nb::handle socket, const Descriptor& descriptor, std::optional<double> timeout) {
  const int fd = socket_of(socket);
  const Patience patience(timeout);
  if (descriptor.bytes().empty()) throw Error(Errc::closed, "ipc.send: the descriptor is closed");
  const Descriptor mine = duplicate(descriptor);
  interruptibly([&] { ipc::send(fd, mine, patience.all()); });
}

Descriptor receive(nb::handle socket, std::optional<double> timeout) {
  const int fd = socket_of(socket);
  const Patience patience(timeout);
  return interruptibly([&] { return ipc::receive(fd, patience.all()); });
}

void close(Descriptor& descriptor) {
  Descriptor files{{}, {}};
  std::swap(files, descriptor);
  without_gil([&] { files = Descriptor{{}, {}}; });
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
          "Owned by the Descriptor.")
      .def("close", &close, "Close the files now. open() and send() refuse the Descriptor afterwards.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Descriptor& d, const nb::args&) { close(d); });

  sub.def(
      "send", &send, nb::arg("socket"), nb::arg("descriptor"), nb::arg("timeout") = nb::none(),
      "Send over a connected Unix-domain socket, in one message. Waits while the socket has no room; `timeout` in "
      "seconds. Ctrl-C ends the wait. Close a socket of type SOCK_STREAM when this raises: part of the message may be "
      "sent. Raises Error: timed_out, peer_gone.");
  sub.def(
      "receive", &receive, nb::arg("socket"), nb::arg("timeout") = nb::none(),
      "Receive what send() sent; `timeout` in seconds. Ctrl-C ends the wait. Raises Error: timed_out, peer_gone when "
      "the other end is closed, corrupt_descriptor for what is no descriptor.");
  sub.def(
      "open",
      [](const Descriptor& descriptor, const Stream& stream) {
        Descriptor mine = duplicate(descriptor);
        return without_gil([&] { return ipc::open(std::move(mine), stream); });
      },
      nb::arg("descriptor"), nb::kw_only(), nb::arg("stream"),
      "The memory that `descriptor` names, usable on `stream` at once. Both processes see each other's writes.");
  bind_channels(sub);
  bind_held_sets(sub);
  bind_leases(sub);
  bind_rings(sub);
  bind_names(sub);
}

}  // namespace weir::python
