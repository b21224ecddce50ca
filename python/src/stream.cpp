// SPDX-License-Identifier: Apache-2.0
// Streams and events. Waits run without the GIL, in slices; between slices, Ctrl-C is answered.

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bind.hpp"
#include "cuda_stream.hpp"
#include "owners.hpp"

namespace weir::python {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
constexpr nanoseconds slice = std::chrono::milliseconds{100};
constexpr double longest = 1e9;  // seconds; a longer timeout means no limit

std::optional<Clock::time_point> deadline(std::optional<double> seconds) {
  if (!seconds || *seconds > longest) return std::nullopt;
  if (std::isnan(*seconds) || *seconds < 0) throw nb::value_error("timeout must be None or a number of seconds >= 0");
  return Clock::now() + std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>{*seconds});
}

/// Ask whether something is complete. If it is, what weir kept for it goes: a program that only asks, and blocks its
/// main thread elsewhere, has no other call that does so.
template <class T>
bool done(const T& asked) {
  const bool complete = without_gil([&] { return asked.done(); });
  if (complete) make_pending_calls();
  return complete;
}

}  // namespace

bool wait_for(const Event& event, std::optional<double> seconds) {
  const auto end = deadline(seconds);
  while (true) {
    const nanoseconds left = end ? *end - Clock::now() : slice;
    const WaitStatus status = without_gil([&] { return event.wait(std::clamp(left, nanoseconds{0}, slice)); });
    if (status == WaitStatus::lost) event.wait();  // throws what ended the stream
    if (status != WaitStatus::timeout) break;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (end && Clock::now() >= *end) return false;
  }
  make_pending_calls();
  return true;
}

void bind_streams(nb::module_& m) {
  nb::class_<Event>(m, "Event", "A point on a stream's timeline. A value; an event made empty is done.")
      .def(nb::init<>())
      .def_prop_ro(
          "done", [](const Event& e) { return done(e); },
          "Whether everything before the point is complete. Never blocks.")
      .def("wait", &wait_for, nb::arg("timeout") = nb::none(),
           "Block until complete: True, or False when `timeout` seconds passed first. The work then goes on.")
      .def("__repr__", [](const Event& e) { return "<weir.Event " + std::to_string(e.value()) + ">"; });

  nb::class_<Stream>(m, "Stream", "An ordered queue of work on one device. There is no default stream.")
      .def(
          "__init__", [](Stream* self, const Device& device) { without_gil([&] { new (self) Stream{device}; }); },
          nb::arg("device"))
      .def_prop_ro("device", &Stream::device)
      .def_prop_ro("id", &Stream::id, "unique in this process, never reused")
      .def(
          "record", [](const Stream& s) { return without_gil([&] { return s.record(); }); },
          "The point after everything put on the stream so far.")
      .def(
          "wait", [](const Stream& s, const Event& e) { without_gil([&] { s.wait(e); }); }, nb::arg("event"),
          "Order what follows after `event`, of any stream of any backend. Never blocks.")
      .def(
          "synchronize",
          [](const Stream& s, std::optional<double> timeout) {
            return wait_for(without_gil([&] { return s.record(); }), timeout);
          },
          nb::arg("timeout") = nb::none(),
          "Block until everything put on the stream so far is complete: True, or False when `timeout` seconds passed "
          "first. The work then goes on.")
      .def_prop_ro(
          "done", [](const Stream& s) { return done(s); },
          "Whether everything put on the stream so far is complete. Never blocks.")
      .def(
          "flush", [](const Stream& s) { without_gil([&] { s.flush(); }); },
          "Hand work that was held back for batching to the device now.")
      .def_prop_ro(
          "__cuda_stream__",
          [](const Stream& s) {
            const auto handle = cuda_stream_handle(s);
            if (!handle) throw nb::attribute_error("only streams of CUDA devices have __cuda_stream__");
            return nb::cpp_function([value = *handle] { return nb::make_tuple(0, value); });
          },
          "CUDA only: call it for (0, handle).")
      .def(
          "__eq__",
          [](const Stream& a, nb::handle b) { return nb::isinstance<Stream>(b) && a == nb::cast<const Stream&>(b); },
          nb::arg("other").none())
      .def("__hash__", &Stream::id)
      .def("__repr__",
           [](const Stream& s) { return "<weir.Stream " + std::to_string(s.id()) + " on " + s.device().id() + ">"; });

  m.def(
      "borrow_cuda_stream", &borrow_cuda_stream, nb::arg("device"), nb::arg("stream").none(),
      nb::sig("def borrow_cuda_stream(device: Device, stream: object) -> Stream"),
      "Stream over a CUDA stream that others own: an object with __cuda_stream__ (cuda.core, CuPy, PyTorch), which is "
      "kept as long as weir uses the stream, or a handle as int, whose stream must live that long: as long as a Stream "
      "or an Event of it, and memory that was allocated or used on it.");
}

}  // namespace weir::python
