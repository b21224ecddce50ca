// SPDX-License-Identifier: Apache-2.0
// What weir/_messages.py needs to send Buffers, Tensors and Devices in messages of multiprocessing, which name no
// stream.

#include <nanobind/stl/vector.h>

#include <utility>

#include "dtype.hpp"
#include "files.hpp"
#include "ordering.hpp"

namespace weir::python {
namespace {

/// Export the buffer on a stream of its own, after all recorded uses and after this thread's work stream.
ipc::Descriptor describe(const Buffer& buffer) {
  const Buffer owner = buffer.share();
  return without_gil([&] {
    const Stream stream{owner.device()};
    if (const Stream* const work = named_work_stream(owner.device())) stream.wait(work->record());
    return owner.ipc_descriptor(stream);
  });
}

/// Open the buffer so that it may be used on this thread's work stream at once; without one, wait until it is complete.
Buffer open(const ipc::Descriptor& descriptor) {
  const Stream arrival{host_device()};
  auto [buffer, opened] = without_gil([&] {
    Buffer made = ipc::open(duplicate(descriptor), arrival);
    Event event = arrival.record();
    if (const Stream* const work = named_work_stream(made.device())) {
      work->wait(event);
      event = {};
    }
    return std::pair(std::move(made), std::move(event));
  });
  python::wait_for(opened, std::nullopt);
  return std::move(buffer);
}

Buffer empty(const Device& device) {
  const Stream stream{device};
  return make_resource(device, device.default_kind())->allocate(0, stream);
}

Device find(const std::string& backend, const std::string& uuid, const std::string& sender) {
  std::string there;
  for (const Device& device : devices()) {
    if (device.backend() == backend && device.uuid().to_string() == uuid) return device;
    there += "\n  " + device.id() + " " + device.uuid().to_string() + " " + std::string(device.name());
  }
  throw Error(Errc::incompatible,
              "the sender's device " + sender + " with the UUID " + uuid + " is not here; there are" + there);
}

}  // namespace

void bind_messages(nb::module_& m) {
  m.def("_describe", &describe, nb::arg("buffer"));
  m.def("_open", &open, nb::arg("descriptor"));
  m.def("_empty", &empty, nb::arg("device"));
  m.def("_find_device", &find, nb::arg("backend"), nb::arg("uuid"), nb::arg("sender"));
  m.def(
      "_tensor",
      [](const Buffer& buffer, const std::string& dtype, std::vector<std::int64_t> shape,
         std::vector<std::int64_t> strides, std::size_t byte_offset) {
        return Tensor(buffer.share(),
                      Layout{dtype_of(nb::str(dtype.c_str())), std::move(shape), std::move(strides), byte_offset});
      },
      nb::arg("buffer"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"), nb::arg("byte_offset"));
  m.def(
      "_gone", [](const std::string& why) { throw Error(Errc::peer_gone, why); }, nb::arg("why"));
}

}  // namespace weir::python
