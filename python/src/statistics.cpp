// SPDX-License-Identifier: Apache-2.0
// Counting resources and their scopes.

#include "weir/adaptors/statistics.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <memory>

#include "bind.hpp"

namespace weir::python {
namespace {

/// A StatisticsScope that ends when it is told to, and keeps its figures.
class Scope {
 public:
  explicit Scope(StatisticsPtr resource) : open_(std::make_unique<StatisticsScope>(std::move(resource))) {}

  [[nodiscard]] AllocationStatistics statistics() const { return open_ ? open_->statistics() : last_; }
  void end() {
    if (!open_) return;
    last_ = open_->statistics();
    open_.reset();
  }
  void enter() const {
    if (!open_) throw Error(Errc::closed, "StatisticsScope: the scope has ended");
  }

 private:
  std::unique_ptr<StatisticsScope> open_;
  AllocationStatistics last_;
};

std::string text_of(const Counter& c) {
  return std::to_string(c.current) + " now, " + std::to_string(c.peak) + " at most, " + std::to_string(c.total) +
         " in all";
}

void bind_figures(nb::module_& m) {
  nb::class_<Counter>(m, "Counter", "One figure over a period.")
      .def_ro("current", &Counter::current,
              "what is live now; in a scope less than 0 when more was closed than was allocated since it began")
      .def_ro("peak", &Counter::peak, "the most that `current` was")
      .def_ro("total", &Counter::total, "everything that was allocated, live or not")
      .def("__repr__", [](const Counter& c) { return "<weir.Counter " + text_of(c) + ">"; });
  nb::class_<AllocationStatistics>(m, "AllocationStatistics", "What a StatisticsResource counts.")
      .def_ro("bytes", &AllocationStatistics::bytes, "as asked for")
      .def_ro("buffers", &AllocationStatistics::buffers)
      .def_ro("refused", &AllocationStatistics::refused, "count of requests that ended in exhaustion")
      .def("__repr__", [](const AllocationStatistics& s) {
        return "<weir.AllocationStatistics bytes: " + text_of(s.bytes) + "; buffers: " + text_of(s.buffers) + "; " +
               std::to_string(s.refused) + " refused>";
      });
}

}  // namespace

void bind_statistics(nb::module_& m) {
  bind_figures(m);
  nb::class_<StatisticsResource, MemoryResource>(
      m, "StatisticsResource",
      "Counts exactly what goes through it, for all threads together. Made by make_statistics.")
      .def("statistics", &StatisticsResource::statistics,
           "The figures since the last push_counters() that was not popped, else since the resource was made.")
      .def("push_counters", &StatisticsResource::push_counters, "Begin a scope inside the current scope.")
      .def("pop_counters", &StatisticsResource::pop_counters,
           "End the scope that was pushed last and return its figures. Raises Error (invalid_argument) when there is "
           "none. Threads that push and pop side by side end each other's scopes: they should use StatisticsScope.");
  nb::class_<Scope>(m, "StatisticsScope",
                    "The figures of a part of the time, from when the object is made until `with` or end() ends it. "
                    "Scopes may overlap in any way, and end on any thread.")
      .def(nb::init<StatisticsPtr>(), nb::arg("resource"))
      .def("statistics", &Scope::statistics, "The figures so far, or those of the whole scope once it has ended.")
      .def("end", &Scope::end, "End the scope. Does nothing the second time.")
      .def("__enter__",
           [](nb::object self) {
             nb::cast<const Scope&>(self).enter();
             return self;
           })
      .def("__exit__", [](Scope& s, const nb::args&) { s.end(); });
  m.def(
      "make_statistics",
      [](ResourcePtr upstream) { return without_gil([&] { return make_statistics(std::move(upstream)); }); },
      nb::arg("upstream"), "Count the bytes and Buffers that go through: now, at most, in total, and what is refused.");
}

}  // namespace weir::python
