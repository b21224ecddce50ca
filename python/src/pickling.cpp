// SPDX-License-Identifier: Apache-2.0
// What cannot be pickled says why. The module copy asks the same way, so copies are refused, too.

#include <utility>

#include "integers.hpp"

namespace weir::python {
namespace {

struct Refusal {
  const char* type;
  const char* why;
};

constexpr Refusal refusals[] = {
    {"Buffer",
     "it owns memory. Use share() for another owner, copy_to(stream=stream) for a copy of the bytes, and "
     "ipc_descriptor(stream=stream) with weir.ipc.send for another process; messages of multiprocessing carry it "
     "themselves"},
    {"Tensor",
     "it owns memory. Use copy_to(stream=stream) for a copy of the elements, and weir.ipc.send with a descriptor of "
     "its buffer for another process; messages of multiprocessing carry it themselves"},
    {"HostMirror", "it owns memory. Use copy_to(stream=stream) of one side for a copy of the bytes"},
    {"MirroredBuffer", "it owns memory. Use read() for the bytes, and copy(index).copy_to(stream=stream) for a copy"},
    {"DeviceVector", "it owns memory. Use copy_to(stream=stream) for a copy of the elements"},
    {"MemoryResource", "it belongs to this process. Pass the object itself on, and make a resource in each process"},
    {"Stream", "it belongs to this process. Pass the object itself on, and make a stream in each process"},
    {"Event",
     "it belongs to this process. Pass the object itself on; weir.ipc.open orders a buffer of another process by "
     "itself"},
    {"KindInfo", "it tells of a driver of this process. Ask for the `kinds` of the device in each process"},
    {"BackendInfo", "it tells of a driver of this process. Call weir.backends() in each process"},
    {"AllocationStatistics", "it holds figures of this process. Keep the numbers that you want of it"},
    {"Counter", "it holds figures of this process. Keep the numbers that you want of it"},
    {"Device",
     "its driver belongs to this process. Pass the object itself on, or its id for weir.device(id); "
     "messages of multiprocessing carry it themselves"},
};

}  // namespace

void refuse_pickling(nb::module_& m) {
  for (const auto& [name, why] : refusals) {
    const nb::object type = m.attr(name);
    type.attr("__reduce_ex__") = nb::cpp_function(
        [why = why](nb::handle self, const nb::args&) {
          fail(PyExc_TypeError, std::string("a weir.") + nb::cast<std::string>(self.type().attr("__name__")) +
                                    " cannot be pickled or copied: " + why);
        },
        nb::name("__reduce_ex__"), nb::scope(type), nb::is_method());
  }
}

}  // namespace weir::python
