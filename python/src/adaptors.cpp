// SPDX-License-Identifier: Apache-2.0
// Resources over another resource that pass its memory on: limiting, aligned, prefetch, debug and logging. Those with
// more to say have files of their own.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <system_error>

#include "integers.hpp"
#include "texts.hpp"
#include "weir/adaptors/aligned.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/adaptors/logging.hpp"
#include "weir/adaptors/prefetch.hpp"

namespace weir::python {
namespace {

void bind_limiting(nb::module_& m) {
  nb::class_<LimitingResource, MemoryResource>(
      m, "LimitingResource",
      "Passes requests on as long as its live Buffers have at most `limit` bytes together, as asked for. Others are "
      "refused with OutOfMemory. Made by make_limiting.")
      .def_prop_ro("limit", &LimitingResource::limit, "bytes")
      .def(
          "set_limit",
          [](LimitingResource& r, const Int& bytes) {
            const std::size_t most = count(bytes, "bytes");
            without_gil([&] { r.set_limit(most); });
          },
          nb::arg("bytes"), "Set the limit from now on. Live Buffers stay, even when they exceed it.");
  m.def(
      "make_limiting",
      [](ResourcePtr upstream, const Int& limit) {
        const std::size_t most = count(limit, "limit");
        return without_gil([&] { return make_limiting(std::move(upstream), most); });
      },
      nb::arg("upstream"), nb::arg("limit"), "Bound the bytes that live Buffers take from `upstream` by this way.");
}

void bind_aligned(nb::module_& m) {
  m.def(
      "make_aligned",
      [](ResourcePtr upstream, const Int& alignment, const Int& threshold) {
        const std::size_t least = count(alignment, "alignment"), from = count(threshold, "threshold");
        return without_gil([&] { return make_aligned(std::move(upstream), least, from); });
      },
      nb::arg("upstream"), nb::arg("alignment"), nb::arg("threshold") = 0,
      "Let every Buffer of at least `threshold` bytes begin at a multiple of `alignment` bytes, a power of two of at "
      "most 1 GiB.");
}

void bind_prefetch(nb::module_& m) {
  m.def(
      "make_prefetch",
      [](ResourcePtr upstream, std::optional<Device> target) {
        return without_gil(
            [&] { return target ? make_prefetch(std::move(upstream), *target) : make_prefetch(std::move(upstream)); });
      },
      nb::arg("upstream"), nb::arg("target").none() = nb::none(),
      "Move each new Buffer of memory that migrates (CUDA managed) to `target`, a device or the host, on the "
      "allocation stream; None is upstream's own device. Raises Error (unsupported) for other memory.");
}

void bind_debug(nb::module_& m) {
  constexpr DebugOptions defaults{};
  nb::class_<DebugResource, MemoryResource>(
      m, "DebugResource",
      "Puts guards around each Buffer, poisons new and closed memory, and reports on stderr which bytes were "
      "overwritten outside of a Buffer or after its end. Made by make_debug.")
      .def_prop_ro("violations", &DebugResource::violations,
                   "count of damaged places found so far: the guard before a Buffer, the guard after it, and its "
                   "memory while that is kept");
  m.def(
      "make_debug",
      [](ResourcePtr upstream, const Int& guard_bytes, bool poison, const Int& quarantine_bytes) {
        const DebugOptions options{.guard_bytes = count(guard_bytes, "guard_bytes"),
                                   .poison = poison,
                                   .quarantine_bytes = count(quarantine_bytes, "quarantine_bytes")};
        return without_gil([&] { return make_debug(std::move(upstream), options); });
      },
      nb::arg("upstream"), nb::kw_only(), nb::arg("guard_bytes") = defaults.guard_bytes,
      nb::arg("poison") = defaults.poison, nb::arg("quarantine_bytes") = defaults.quarantine_bytes,
      "Find writes outside of Buffers and to closed ones. `guard_bytes` go before and after each Buffer; `poison` "
      "fills new Buffers with 0xcd and kept ones with 0xdd; closed memory is kept from upstream up to "
      "`quarantine_bytes`.");
}

LoggingPtr log(ResourcePtr upstream, nb::handle path, const Int& buffer_bytes) {
  const std::string file = path_of(path);
  const LoggingOptions options{.buffer_bytes = count(buffer_bytes, "buffer_bytes")};
  for (;;) {
    try {
      return without_gil([&] { return make_logging(upstream, file, options); });
    } catch (const Error&) {
      throw;
    } catch (const std::system_error& e) {
      if (e.code() != std::errc::interrupted) {
        PyErr_SetObject(PyExc_OSError, nb::make_tuple(e.code().value(), e.code().message(), path).ptr());
        throw nb::python_error();
      }
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();  // else open it again, as Python's own calls do (PEP 475)
  }
}

void bind_logging(nb::module_& m) {
  nb::class_<LoggingResource, MemoryResource>(
      m, "LoggingResource",
      "Writes a line for every operation, for `weir replay` and to read (docs/traces.md). Made by make_logging. The "
      "last lines are written when the last handle and the last Buffer are gone.")
      .def(
          "flush", [](LoggingResource& r) { without_gil([&] { r.flush(); }); },
          "Write the collected lines, and wait until they are written.");
  m.def("make_logging", &log, nb::arg("upstream"), nb::arg("path"), nb::kw_only(),
        nb::arg("buffer_bytes") = LoggingOptions{}.buffer_bytes,
        nb::sig("def make_logging(upstream: MemoryResource, path: str | os.PathLike[str], *, "
                "buffer_bytes: int = 65536) -> LoggingResource"),
        "Write a trace of what goes through to the file `path`, which is created or emptied. Lines are collected up to "
        "`buffer_bytes`; with 0 each is written at once. Raises OSError when the file cannot be opened. A close may "
        "write with the GIL, so read a FIFO in another process.");
}

}  // namespace

void bind_adaptors(nb::module_& m) {
  bind_limiting(m);
  bind_aligned(m);
  bind_prefetch(m);
  bind_debug(m);
  bind_logging(m);
}

}  // namespace weir::python
