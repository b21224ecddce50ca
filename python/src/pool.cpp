// SPDX-License-Identifier: Apache-2.0
// Pools, and the options of make_pool.

#include "weir/pool.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <array>
#include <limits>
#include <utility>

#include "integers.hpp"
#include "resource.hpp"

namespace weir::python {
namespace {

constexpr PoolOptions defaults{};

constexpr std::array policies{std::pair{"passed_only", ReusePolicy::passed_only},
                              std::pair{"wait_rather_than_fail", ReusePolicy::wait_rather_than_fail},
                              std::pair{"wait_rather_than_grow", ReusePolicy::wait_rather_than_grow}};

ReusePolicy policy_of(nb::handle policy, const char* what) {
  if (nb::isinstance<ReusePolicy>(policy)) return nb::cast<ReusePolicy>(policy);
  if (!nb::isinstance<nb::str>(policy)) wrong_type(policy, what, "a weir.ReusePolicy or its name");
  const std::string wanted = nb::cast<std::string>(policy);
  std::string names;
  for (const auto& [name, value] : policies) {
    if (wanted == name) return value;
    names += std::string(" ") + name;
  }
  throw nb::value_error(("no reuse policy is named '" + wanted + "'; there are" + names).c_str());
}

/// Return a number of bytes of which None is the most.
std::size_t at_most(const std::optional<Int>& bytes, const char* what) {
  return bytes ? count(*bytes, what) : std::numeric_limits<std::size_t>::max();
}

nb::dict dict_of(const PoolStats& s) {
  nb::dict out = python::dict_of(s.resource);
  out["cached"] = s.cached;
  out["largest_free"] = s.largest_free;
  out["segments"] = s.segments;
  out["streams"] = s.streams;
  out["reuses"] = s.reuses;
  out["waits"] = s.waits;
  out["grown"] = s.grown;
  out["given_back"] = s.given_back;
  out["moved"] = s.moved;
  return out;
}

PoolPtr pool_over(nb::handle upstream, const Int& initial_bytes, const std::optional<Int>& limit,
                  const Int& segment_bytes, double growth, const Int& alignment, nb::handle reuse,
                  const std::optional<Int>& release_threshold, double patience, bool exportable, bool paged) {
  const PoolOptions options{.initial_bytes = count(initial_bytes, "initial_bytes"),
                            .limit = at_most(limit, "limit"),
                            .segment_bytes = count(segment_bytes, "segment_bytes"),
                            .growth = growth,
                            .alignment = count(alignment, "alignment"),
                            .reuse = policy_of(reuse, "reuse"),
                            .release_threshold = at_most(release_threshold, "release_threshold"),
                            .patience = duration(patience, "patience"),
                            .exportable = exportable,
                            .paged = paged};
  if (nb::isinstance<Device>(upstream)) {
    const Device device = nb::cast<Device>(upstream);
    return without_gil([&] { return make_pool(device, options); });
  }
  if (!nb::isinstance<MemoryResource>(upstream)) wrong_type(upstream, "upstream", "a weir.Device or a MemoryResource");
  auto resource = nb::cast<ResourcePtr>(upstream);
  return without_gil([&] { return make_pool(std::move(resource), options); });
}

void bind_class(nb::module_& m) {
  nb::class_<Pool, MemoryResource>(
      m, "Pool",
      "A resource that hands out memory of another again and again without asking it. Made by make_pool. "
      "The memory of a closed Buffer is used again after its recorded uses. The pool lives until its last Buffer is "
      "gone.")
      .def(
          "pool_stats", [](const Pool& p) { return dict_of(without_gil([&] { return p.pool_stats(); })); },
          "What stats() has, and: cached, largest_free in bytes; counts of segments, streams, reuses (served by a "
          "thread's own cache), waits (of streams for memory of others), grown, given_back, moved.")
      .def(
          "set_limit",
          [](Pool& p, std::optional<Int> bytes) {
            const std::size_t most = at_most(bytes, "bytes");
            without_gil([&] { p.set_limit(most); });
          },
          nb::arg("bytes").none(),
          "Set the most bytes that may be reserved from now on; None is no limit. Memory above it is not given back.")
      .def(
          "set_reuse_policy",
          [](Pool& p, nb::handle policy) {
            const ReusePolicy wanted = policy_of(policy, "policy");
            without_gil([&] { p.set_reuse_policy(wanted); });
          },
          nb::arg("policy"), nb::sig("def set_reuse_policy(self, policy: ReusePolicy | str) -> None"),
          "Set whether streams may wait for memory that another stream used last.")
      .def(
          "set_release_threshold",
          [](Pool& p, std::optional<Int> bytes) {
            const std::size_t most = at_most(bytes, "bytes");
            without_gil([&] { p.set_release_threshold(most); });
          },
          nb::arg("bytes").none(),
          "Set the reserved bytes above which free memory goes back by itself; None keeps everything. What is above "
          "and free goes back at once.")
      .def(
          "dump", [](const Pool& p) { return without_gil([&] { return p.dump(); }); },
          "Everything that the pool has at this moment, as JSON: statistics, streams, and every range of memory.");
}

}  // namespace

void bind_pools(nb::module_& m) {
  nb::enum_<ReusePolicy>(m, "ReusePolicy",
                         "When a pool may give memory to a stream although its last use, on another stream, is not "
                         "complete. The stream then waits for that use.")
      .value("passed_only", ReusePolicy::passed_only, "never")
      .value("wait_rather_than_fail", ReusePolicy::wait_rather_than_fail, "when upstream has no more memory")
      .value("wait_rather_than_grow", ReusePolicy::wait_rather_than_grow, "before upstream is asked");
  bind_class(m);
  m.def("make_pool", &pool_over, nb::arg("upstream"), nb::kw_only(), nb::arg("initial_bytes") = defaults.initial_bytes,
        nb::arg("limit").none() = nb::none(), nb::arg("segment_bytes") = defaults.segment_bytes,
        nb::arg("growth") = defaults.growth, nb::arg("alignment") = defaults.alignment,
        nb::arg("reuse") = "wait_rather_than_fail", nb::arg("release_threshold").none() = nb::none(),
        nb::arg("patience") = std::chrono::duration<double>(defaults.patience).count(),
        nb::arg("exportable") = defaults.exportable, nb::arg("paged") = defaults.paged,
        nb::sig("def make_pool(upstream: Device | MemoryResource, *, initial_bytes: int = 0, limit: int | None = None, "
                "segment_bytes: int = 16777216, growth: float = 0.03125, alignment: int = 256, "
                "reuse: ReusePolicy | str = 'wait_rather_than_fail', release_threshold: int | None = None, "
                "patience: float = 1.0, exportable: bool = False, paged: bool = True) -> Pool"),
        "A pool over a resource, or over the plain resource of one of the device's kinds: one that can be paged, if "
        "there is one and `paged` is set, else the default kind; an exportable one for an exportable pool. "
        "Sizes are in bytes. `limit` bounds what is reserved; `segment_bytes` and `growth` say how much is taken at a "
        "time; `release_threshold` is the reserved bytes above which free memory goes back by itself; `patience` is "
        "the seconds for which an allocation waits, before it fails, for pending work and for closed memory that other "
        "processes still use. Raises Error "
        "(invalid_argument, unsupported) for options that the pool cannot have, OutOfMemory for `initial_bytes`.");
}

}  // namespace weir::python
