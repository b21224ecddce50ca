// SPDX-License-Identifier: Apache-2.0
// weir.ipc.SetWriter and SetReader: sets of tensors that a holder keeps.

#include "weir/held_set.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "files.hpp"
#include "host_array.hpp"
#include "integers.hpp"
#include "patience.hpp"
#include "texts.hpp"

namespace weir::python {
namespace {

using ipc::HoldOptions;
using ipc::SetReader;
using ipc::SetWriter;
using std::chrono::milliseconds;

HoldOptions options(double timeout, bool other_users) {
  return {std::chrono::ceil<milliseconds>(duration(timeout, "timeout")), other_users};
}

/// A writer, and what keeps the calls of one thread together.
struct Writer {
  Writer(std::string path, std::string name, const HoldOptions& how) : writer(std::move(path), std::move(name), how) {}
  SetWriter writer;
  std::timed_mutex turn;  // never awaited with the GIL
};

/// Wait in slices until the work is complete or the time is over; the commit says which.
void wait_for(const Event& event, const Patience& patience) {
  while (without_gil([&] { return event.wait(patience.left(Patience::slice)); }) == WaitStatus::timeout) {
    if (patience.is_over()) return;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

/// Wait in slices until no other thread is in a call of the writer.
std::unique_lock<std::timed_mutex> take_turn(Writer& self, const Patience& patience, const char* operation) {
  std::unique_lock turn(self.turn, std::defer_lock);
  while (!without_gil([&] { return turn.try_lock_for(patience.left(Patience::slice)); })) {
    if (patience.is_over())
      throw Error(Errc::timed_out, std::string(operation) + ": another thread was in a call of this writer");
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return turn;
}

/// Return owners of the tensors, under their names.
std::vector<std::pair<std::string, Tensor>> owners_of(const nb::dict& tensors) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto [key, value] : tensors) {
    std::string name = string_of(key, "the name of a tensor");
    std::optional<Tensor> tensor = weir_tensor(value, "SetWriter.commit");
    if (!tensor) wrong_type(value, ("tensors['" + name + "']").c_str(), "a weir.Tensor or a weir.Buffer");
    all.emplace_back(std::move(name), std::move(*tensor));
  }
  return all;
}

std::uint64_t commit(Writer& self, nb::dict tensors, const Stream& stream, std::optional<double> timeout) {
  const auto all = owners_of(tensors);
  const Patience patience(timeout);
  const auto turn = take_turn(self, patience, "SetWriter.commit");
  try {
    without_gil([&] {
      self.writer.discard();
      for (const auto& [name, tensor] : all) self.writer.add(name, tensor, stream);
    });
    wait_for(without_gil([&] { return stream.record(); }), patience);
    return interruptibly([&] { return self.writer.commit(patience.all()); });
  } catch (...) {
    without_gil([&] { self.writer.discard(); });
    throw;
  }
}

void remove(Writer& self, std::optional<double> timeout) {
  const Patience patience(timeout);
  const auto turn = take_turn(self, patience, "SetWriter.remove");
  interruptibly([&] { self.writer.remove(patience.all()); });
}

nb::tuple open_set(SetReader& reader, const Stream& stream, std::optional<double> timeout, std::uint64_t newer_than) {
  ipc::HeldSet set = attempt_with(Patience(timeout), [&](milliseconds t) { return reader.open(stream, t, newer_than); });
  nb::dict tensors;
  for (auto& [name, tensor] : set.tensors) tensors[nb::str(name.data(), name.size())] = nb::cast(std::move(tensor));
  return nb::make_tuple(set.epoch, std::move(tensors));
}

template <class End>
void make(End* self, nb::handle path, std::string name, double timeout, bool other_users) {
  std::string at = path_of(path);
  const HoldOptions how = options(timeout, other_users);
  interruptibly([&] { new (self) End(std::move(at), std::move(name), how); });
}

}  // namespace

void bind_held_sets(nb::module_& ipc) {
  nb::class_<Writer>(ipc, "SetWriter", "Puts a named set of tensors into a holder (`weir hold PATH`).")
      .def("__init__", &make<Writer>, nb::arg("path"), nb::arg("name"), nb::kw_only(), nb::arg("timeout") = 10.0,
           nb::arg("other_users") = false,
           "Connect to the holder at `path`, to write the set `name`. `timeout` in seconds. Raises Error: peer_gone "
           "when no holder is there.")
      .def(
          "commit", &commit, nb::arg("tensors"), nb::kw_only(), nb::arg("stream"), nb::arg("timeout") = nb::none(),
          "Make this dict of tensors, a Buffer standing for its bytes, the next epoch of the set, as a whole, once all "
          "work on `stream` and on the tensors is complete. Return the epoch. Calls of several threads take turns. The "
          "tensors may be closed then, and their memory must not be written any more. `timeout` in seconds; Ctrl-C ends "
          "the wait, and the set may be committed all the same. Raises Error: unsupported for memory that was not made "
          "exportable, out_of_memory when the holder is full, peer_gone, timed_out.")
      .def("remove", &remove, nb::kw_only(), nb::arg("timeout") = nb::none(),
           "Take the set out of the holder. Readers keep what they have. `timeout` in seconds; Ctrl-C ends the wait.");
  nb::class_<SetReader>(ipc, "SetReader", "Gets a named set of tensors from a holder (`weir hold PATH`).")
      .def("__init__", &make<SetReader>, nb::arg("path"), nb::arg("name"), nb::kw_only(), nb::arg("timeout") = 10.0,
           nb::arg("other_users") = false,
           "Connect to the holder at `path`, to read the set `name`, which need not exist yet. `timeout` in seconds.")
      .def("open", &open_set, nb::kw_only(), nb::arg("stream"), nb::arg("timeout") = nb::none(),
           nb::arg("newer_than") = 0,
           "Return (epoch, dict of tensors) of the newest epoch, once that is greater than `newer_than`. The tensors are "
           "read-only and usable on `stream` at once. `timeout` in seconds; Ctrl-C ends the wait. Raises Error: "
           "timed_out, peer_gone, corrupt_descriptor.");
}

}  // namespace weir::python
