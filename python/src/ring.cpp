// SPDX-License-Identifier: Apache-2.0
// weir.ipc.RingProducer and RingConsumer: frames from one process to several others.

#include "weir/ring.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <utility>
#include <vector>

#include "dtype.hpp"
#include "ends_without_gil.hpp"
#include "extents.hpp"
#include "files.hpp"
#include "patience.hpp"

namespace weir::python {
namespace {

using ipc::Frame;
using RingConsumer = EndsWithoutGil<ipc::RingConsumer>;
using RingProducer = EndsWithoutGil<ipc::RingProducer>;
using std::chrono::milliseconds;

std::vector<std::byte> copy_of(nb::bytes payload) {
  const auto* const data = reinterpret_cast<const std::byte*>(payload.c_str());
  return {data, data + payload.size()};
}

/// Return the slot that a Buffer or a Tensor of Python stands for.
Buffer& slot_of(nb::handle slot) {
  if (nb::isinstance<Tensor>(slot)) return nb::cast<Tensor&>(slot).buffer();
  if (nb::isinstance<Buffer>(slot)) return nb::cast<Buffer&>(slot);
  throw nb::type_error("a slot must be the weir.Buffer or weir.Tensor that acquire() returned");
}

void make_producer(RingProducer* self, const ResourcePtr& resource, std::size_t slots, std::size_t slot_bytes,
                   nb::handle shape, nb::handle dtype, bool drop_oldest, std::size_t per_consumer, bool read_only) {
  ipc::RingOptions options{.slots = slots, .slot_bytes = slot_bytes, .per_consumer = per_consumer};
  if (read_only) options.access = ipc::Access::read_only;
  if (drop_oldest) options.policy = ipc::RingPolicy::drop_oldest;
  if (shape.is_none() != dtype.is_none()) throw nb::type_error("shape and dtype come together");
  if (!shape.is_none()) options.layout = layout_of(dtype_of(dtype), shape, nb::none(), 0);
  without_gil([&] { new (self) RingProducer(resource, options); });
}

nb::object acquire(RingProducer& ring, const Stream& stream, std::optional<double> timeout) {
  auto slot = attempt_with(Patience(timeout), [&](milliseconds now) { return ring.acquire(stream, now); });
  if (!ring.layout()) return nb::cast(std::move(slot));
  return nb::cast(Tensor(std::move(slot), *ring.layout()));
}

std::uint64_t publish_all(RingProducer& ring, const std::vector<std::pair<nb::object, nb::bytes>>& frames,
                          const Stream& stream) {
  std::vector<ipc::Parcel> parcels;
  parcels.reserve(frames.size());
  for (const auto& [slot, payload] : frames) parcels.push_back({slot_of(slot).share(), copy_of(payload)});
  const std::uint64_t first = without_gil([&] { return ring.publish(parcels, stream); });
  for (const auto& [slot, payload] : frames) slot_of(slot).close();
  return first;
}

std::uint64_t publish(RingProducer& ring, nb::object slot, const Stream& stream, nb::bytes payload) {
  return publish_all(ring, {{std::move(slot), std::move(payload)}}, stream);
}

bool drain(RingProducer& ring, std::optional<double> timeout) {
  const Patience patience(timeout);
  for (;;) {
    const auto now = patience.left(Patience::slice);
    if (without_gil([&] { return ring.drain(now); })) return true;
    if (patience.is_over()) return false;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void close(RingProducer& ring) {
  without_gil([&] { ring.close(); });
}

Frame next(RingConsumer& ring, const Stream& stream, std::optional<double> timeout) {
  return attempt_with(Patience(timeout), [&](milliseconds now) { return ring.next(stream, now); });
}

void open(RingConsumer& ring, const Stream& stream, std::optional<double> timeout) {
  attempt_with(Patience(timeout), [&](milliseconds now) { ring.open(stream, now); });
}

void close(RingConsumer& ring) {
  without_gil([&] { ring.close(); });
}

void bind_stats(nb::module_& ipc) {
  nb::class_<ipc::RingConsumerStats>(ipc, "RingConsumerStats", "What one consumer of a ring has.")
      .def_ro("id", &ipc::RingConsumerStats::id, "What add_consumer returned.")
      .def_ro("held", &ipc::RingConsumerStats::held, "Slots that are on their way to it or held by it.")
      .def_ro("waiting", &ipc::RingConsumerStats::waiting, "Frames that it has not been sent yet.")
      .def_ro("missed", &ipc::RingConsumerStats::missed, "Frames that were taken back before it was sent them.");
  nb::class_<ipc::RingStats>(ipc, "RingStats", "What a ring's producer has at a moment.")
      .def_ro("free", &ipc::RingStats::free, "Slots that acquire() can return at once.")
      .def_ro("waiting", &ipc::RingStats::waiting, "Published frames that some consumer has not been sent yet.")
      .def_ro("published", &ipc::RingStats::published, "Frames so far.")
      .def_ro("dropped", &ipc::RingStats::dropped, "Frames that were taken back so far.")
      .def_ro("consumers", &ipc::RingStats::consumers, "A RingConsumerStats for each.");
}

void bind_producer(nb::module_& ipc) {
  const weir::ipc::RingOptions usual;
  nb::class_<RingProducer>(ipc, "RingProducer", "The end of a ring that makes frames, which others read in place.")
      .def(
          "__init__", &make_producer, nb::arg("resource"), nb::kw_only(), nb::arg("slots") = usual.slots,
          nb::arg("slot_bytes") = usual.slot_bytes, nb::arg("shape").none() = nb::none(),
          nb::arg("dtype").none() = nb::none(), nb::arg("drop_oldest") = false,
          nb::arg("per_consumer") = usual.per_consumer, nb::arg("read_only") = false,
          nb::sig("def __init__(self, resource: weir._weir.MemoryResource, *, slots: int = 8, slot_bytes: int = 0, "
                  "shape: object = None, dtype: object = None, drop_oldest: bool = False, per_consumer: int = 2, "
                  "read_only: bool = False) -> None"),
          "Allocate the slots from an exportable resource. With `shape` and `dtype`, frames are tensors. Without "
          "`drop_oldest`, acquire() waits for the slowest consumer; with it, that consumer misses frames. A consumer "
          "has at most `per_consumer` slots. With `read_only`, consumers cannot write them; memory of Vulkan cannot be "
          "lent so.")
      .def(
          "add_consumer",
          [](RingProducer& ring, nb::handle socket) {
            auto mine = duplicate_file(socket_of(socket));
            return without_gil([&] { return ring.add_consumer(std::move(mine)); });
          },
          nb::arg("socket"),
          "Serve the consumer at the other end of a Unix-domain socket of type SOCK_SEQPACKET, of which this takes a "
          "duplicate, from the next frame on. Return its number.")
      .def(
          "remove_consumer",
          [](RingProducer& ring, std::uint64_t id) { without_gil([&] { ring.remove_consumer(id); }); }, nb::arg("id"),
          "Send nothing more to the consumer.")
      .def("acquire", &acquire, nb::kw_only(), nb::arg("stream"), nb::arg("timeout") = nb::none(),
           nb::sig("def acquire(self, *, stream: weir._weir.Stream, timeout: float | None = None) -> "
                   "weir._weir.Buffer | weir._weir.Tensor"),
           "Return a free slot, usable on `stream`: a Tensor if the ring has a shape, else a Buffer. What is put on "
           "`stream` until the slot is published or closed counts as a use of it. `timeout` in seconds; Ctrl-C ends "
           "the wait. Raises Error: timed_out, closed.")
      .def(
          "publish", &publish, nb::arg("slot"), nb::kw_only(), nb::arg("stream"), nb::arg("payload") = nb::bytes("", 0),
          "Publish a slot as the next frame, with up to 248 bytes beside it, and close it here. Return its number. The "
          "slot is used again once consumers, and arrays over it in this process, are gone. Never waits.")
      .def("publish_all", &publish_all, nb::arg("frames"), nb::kw_only(), nb::arg("stream"),
           "The same for a list of (slot, payload), with as few system calls as possible. Return the first number.")
      .def("drain", &drain, nb::arg("timeout") = nb::none(),
           "Wait until every consumer has been sent every frame. Return False if `timeout` seconds passed first.")
      .def_prop_ro(
          "stats", [](const RingProducer& ring) { return without_gil([&] { return ring.stats(); }); },
          "What the ring and each consumer has.")
      .def_prop_ro("slot_bytes", &RingProducer::slot_bytes, "Bytes of a slot.")
      .def("close", nb::overload_cast<RingProducer&>(&close),
           "Publish and send nothing any more. What consumers hold stays valid.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](RingProducer& ring, const nb::args&) { close(ring); });
}

// The owner is taken out first: another thread may take a further owner meanwhile.
void close(Frame& frame) {
  without_gil([last = std::move(frame.buffer)]() mutable { last.close(); });
}

void bind_consumer(nb::module_& ipc) {
  nb::class_<Frame>(ipc, "Frame", "What a consumer of a ring receives. Closing it gives the slot back.")
      .def_prop_ro(
          "buffer", [](const Frame& frame) { return frame.buffer.share(); }, "Another owner of the slot.")
      .def_prop_ro("tensor", &Frame::tensor, "A tensor of the ring's shape over the slot.")
      .def_ro("sequence", &Frame::sequence, "Number of the frame, counted by the producer.")
      .def_ro("missed", &Frame::missed, "Frames that this consumer missed right before this one.")
      .def_prop_ro(
          "payload",
          [](const Frame& frame) {
            return nb::bytes(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
          },
          "Bytes of the producer's user.")
      .def(
          "close", [](Frame& frame) { close(frame); },
          "Drop this owner of the slot, which goes back once buffers, tensors and arrays over it are gone, too.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Frame& frame, const nb::args&) { close(frame); });
  nb::class_<RingConsumer>(ipc, "RingConsumer", "An end of a ring that receives frames.")
      .def(
          "__init__",
          [](RingConsumer* self, nb::handle socket, std::uint32_t ahead) {
            new (self) RingConsumer(duplicate_file(socket_of(socket)), {ahead});
          },
          nb::arg("socket"), nb::kw_only(), nb::arg("ahead") = weir::ipc::RingConsumerOptions{}.ahead,
          "Speak over a socket, of which this takes a duplicate. The producer may send `ahead` frames before they are "
          "asked for.")
      .def("open", &open, nb::kw_only(), nb::arg("stream"), nb::arg("timeout") = nb::none(),
           "Open the ring's memory, which the first next() does otherwise.")
      .def("next", &next, nb::kw_only(), nb::arg("stream"), nb::arg("timeout") = nb::none(),
           "Return the next frame, usable on `stream`. `timeout` in seconds; Ctrl-C ends the wait. Raises Error: "
           "timed_out, peer_gone, corrupt_descriptor.")
      .def("close", nb::overload_cast<RingConsumer&>(&close),
           "Receive nothing any more. Frames that are held stay valid.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](RingConsumer& ring, const nb::args&) { close(ring); });
}

}  // namespace

void bind_rings(nb::module_& ipc) {
  bind_stats(ipc);
  bind_producer(ipc);
  bind_consumer(ipc);
}

}  // namespace weir::python
