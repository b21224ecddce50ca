// SPDX-License-Identifier: Apache-2.0
// weir.ipc.Channel: a connection over which two processes lend each other buffers.

#include "weir/channel.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ends_without_gil.hpp"
#include "files.hpp"
#include "patience.hpp"

namespace weir::python {
namespace {

using Channel = EndsWithoutGil<ipc::Channel>;
using std::chrono::milliseconds;

std::span<const std::byte> payload_of(nb::bytes payload) {
  return {reinterpret_cast<const std::byte*>(payload.c_str()), payload.size()};
}

void send(Channel& channel, const Buffer& buffer, const Stream& stream, nb::bytes payload, bool read_only,
          std::optional<double> timeout) {
  const Buffer mine = buffer.share();  // another thread may close the Python object meanwhile
  const auto bytes = payload_of(payload);
  attempt_with(Patience(timeout),
               [&](milliseconds now) { channel.send(mine, stream, bytes, now, access_of(read_only)); });
}

/// Return another owner of the buffer in a parcel, which may be any object.
Buffer owner_of(nb::handle object, std::size_t index) {
  const std::string which = "parcels[" + std::to_string(index) + "][0]";
  if (!nb::isinstance<Buffer>(object)) wrong_type(object, which.c_str(), "a weir.Buffer");
  return nb::cast<const Buffer&>(object).share();
}

std::size_t send_all(Channel& channel, const std::vector<std::pair<nb::object, nb::bytes>>& parcels,
                     const Stream& stream, bool read_only, std::optional<double> timeout) {
  std::vector<ipc::Parcel> mine;
  mine.reserve(parcels.size());
  for (const auto& [buffer, payload] : parcels) {
    const auto bytes = payload_of(payload);
    mine.push_back({owner_of(buffer, mine.size()), {bytes.begin(), bytes.end()}, access_of(read_only)});
  }
  const Patience patience(timeout);
  std::size_t sent = 0;
  while (sent < mine.size()) {
    try {
      const auto rest = std::span(mine).subspan(sent);
      sent += attempt_with(patience, [&](milliseconds now) { return channel.send(rest, stream, now); });
    } catch (const Error& error) {
      if (sent == 0 || error.code() != Errc::timed_out) throw;
      break;
    }
  }
  return sent;
}

nb::tuple receive(Channel& channel, const Stream& stream, std::optional<double> timeout) {
  auto parcel = attempt_with(Patience(timeout), [&](milliseconds now) { return channel.receive(stream, now); });
  nb::bytes payload(reinterpret_cast<const char*>(parcel.payload.data()), parcel.payload.size());
  return nb::make_tuple(std::move(parcel.buffer), std::move(payload));
}

nb::tuple pair(std::uint32_t window) {
  auto [one, other] = Channel::make_sockets();
  return nb::make_tuple(Channel(std::move(one), {window}), Channel(std::move(other), {window}));
}

void close_channel(Channel& channel) {
  without_gil([&] { channel.close(); });
}

}  // namespace

void bind_channels(nb::module_& ipc) {
  nb::class_<weir::ipc::ChannelStats>(ipc, "ChannelStats", "What a channel holds at a moment.")
      .def_ro("lent", &weir::ipc::ChannelStats::lent, "Buffers that the peer has not given back.")
      .def_ro("borrowed", &weir::ipc::ChannelStats::borrowed, "Buffers of the peer that are not closed here.")
      .def_ro("waiting", &weir::ipc::ChannelStats::waiting, "Buffers of the peer that nobody has received yet.")
      .def_ro("known", &weir::ipc::ChannelStats::known, "Segments of this process that the peer was told of.")
      .def_ro("opened", &weir::ipc::ChannelStats::opened, "Segments that the peer told of.")
      .def_prop_ro(
          "process",
          [](const weir::ipc::ChannelStats& stats) {
            return stats.process == 0 ? std::nullopt : std::optional(stats.process);
          },
          "The id of the peer's process; None while or where it is not known.");
  nb::class_<Channel>(ipc, "Channel", "One end of a connection over which two processes lend each other buffers.")
      .def(
          "__init__",
          [](Channel* self, nb::handle socket, std::uint32_t window) {
            new (self) Channel(duplicate_file(socket_of(socket)), {window});
          },
          nb::arg("socket"), nb::kw_only(), nb::arg("window") = weir::ipc::ChannelOptions{}.window,
          "Speak over a connected Unix-domain socket of type SOCK_SEQPACKET, of which this takes a duplicate. The peer "
          "may send `window` buffers ahead.")
      .def_static("pair", &pair, nb::kw_only(), nb::arg("window") = weir::ipc::ChannelOptions{}.window,
                  "Two channels that are connected with each other.")
      .def("send", &send, nb::arg("buffer"), nb::kw_only(), nb::arg("stream"), nb::arg("payload") = nb::bytes("", 0),
           nb::arg("read_only") = false, nb::arg("timeout") = nb::none(),
           "Lend `buffer` to the peer, with up to 256 bytes beside it. The peer's stream waits for what was put on "
           "`stream`. With `read_only`, the peer cannot write it; memory of Vulkan cannot be lent so. `timeout` in "
           "seconds; Ctrl-C ends the wait.")
      .def("send_all", &send_all, nb::arg("parcels"), nb::kw_only(), nb::arg("stream"), nb::arg("read_only") = false,
           nb::arg("timeout") = nb::none(),
           nb::sig("def send_all(self, parcels: Sequence[tuple[weir._weir.Buffer, bytes]], *, "
                   "stream: weir._weir.Stream, read_only: bool = False, timeout: float | None = None) -> int"),
           "The same for a list of (buffer, payload), with as few system calls as possible. Return how many were sent: "
           "fewer than all only if `timeout` passed.")
      .def("receive", &receive, nb::kw_only(), nb::arg("stream"), nb::arg("timeout") = nb::none(),
           "Return the next buffer that the peer sent, usable on `stream`, and its payload. `timeout` in seconds; "
           "Ctrl-C ends the wait. Raises Error: timed_out, peer_gone, corrupt_descriptor.")
      .def_prop_ro("stats", &Channel::stats, "Counts of both directions.")
      .def("close", &close_channel, "Send and receive nothing any more. What was lent and borrowed stays valid.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Channel& channel, const nb::args&) { close_channel(channel); });
}

}  // namespace weir::python
