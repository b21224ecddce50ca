// SPDX-License-Identifier: Apache-2.0
// weir.ipc.Server and weir.ipc.Client: tensors of other processes, by name.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtype.hpp"
#include "ends_without_gil.hpp"
#include "extents.hpp"
#include "files.hpp"
#include "patience.hpp"
#include "texts.hpp"
#include "weir/client.hpp"
#include "weir/server.hpp"

namespace weir::python {
namespace {

using ipc::Guest;
using ipc::Listing;
using ipc::Loan;
using ipc::News;
using ipc::Server;
using Client = EndsWithoutGil<ipc::Client>;
using Subscription = EndsWithoutGil<ipc::Subscription>;
using std::chrono::milliseconds;

/// Return the time limit of a call that asks the server once.
milliseconds limit(double seconds, const char* what = "timeout") {
  return std::chrono::ceil<milliseconds>(duration(seconds, what));
}

/// All servers of which an object of Python is left. Only threads with the GIL touch the list. It is never destroyed.
std::vector<std::weak_ptr<Server>>& servers() {
  static auto& all = *new std::vector<std::weak_ptr<Server>>;
  return all;
}

/// A server of Python. Its end waits for the thread that serves, which may be about to take a lock of Python around a
/// queue of Vulkan: so it waits without the GIL, and not once that thread can get the GIL no more.
class OwnServer {
 public:
  explicit OwnServer(std::shared_ptr<Server> server) : server_(std::move(server)) {
    std::erase_if(servers(), [](const auto& one) { return one.expired(); });
    servers().push_back(server_);
  }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;
  ~OwnServer() {
    if (Py_IsInitialized()) {
      without_gil([last = std::move(server_)]() mutable { last.reset(); });
      make_pending_calls();
    } else {  // it was made after close_servers()
      static auto& left = *new std::vector<std::shared_ptr<Server>>;
      left.push_back(std::move(server_));
    }
  }
  Server& operator*() const noexcept { return *server_; }
  Server* operator->() const noexcept { return server_.get(); }
  void close() const {
    without_gil([this] { server_->close(); });
    make_pending_calls();
  }

 private:
  std::shared_ptr<Server> server_;
};

void close_servers() {
  for (const auto& one : std::exchange(servers(), {}))
    without_gil([&] {
      if (const auto server = one.lock()) server->close();
    });
}

void make_server(OwnServer* self, nb::handle path, std::vector<std::uint32_t> users, std::size_t most_clients,
                 std::size_t most_names, std::size_t most_name_bytes, std::size_t most_loans, std::size_t remembered,
                 double patience) {
  const ipc::ServerOptions options{
      std::move(users), most_clients, most_names, most_name_bytes, most_loans, remembered, limit(patience, "patience")};
  const std::string at = path_of(path);
  new (self) OwnServer(without_gil([&] { return std::make_shared<Server>(at, options); }));
}

// Asks in slices, so that Ctrl-C ends the wait. No news is lost between two of them.
News next(Subscription& subscription, std::optional<double> timeout) {
  return attempt_with(Patience(timeout), [&](milliseconds now) { return subscription.next(now); });
}

void bind_values(nb::module_& ipc) {
  nb::class_<Listing>(ipc, "Listing", "One tensor under its name.")
      .def_ro("name", &Listing::name)
      .def_ro("version", &Listing::version, "Grows with every change that the server makes to any of its names.")
      .def_prop_ro("dtype", [](const Listing& l) { return name_of(l.layout.dtype); })
      .def_prop_ro("shape", [](const Listing& l) { return tuple_of(l.layout.shape); })
      .def_prop_ro(
          "strides", [](const Listing& l) { return tuple_of(l.layout.strides); }, "In elements.")
      .def_ro("nbytes", &Listing::bytes, "Of the memory that a client gets.")
      .def_ro("where", &Listing::where, "Device and kind of memory, as the server calls them.");
  nb::enum_<ipc::Change>(ipc, "Change", "What a News tells.")
      .value("published", ipc::Change::published, "The tensor is there, in place of an earlier one of that name.")
      .value("withdrawn", ipc::Change::withdrawn, "The name is gone.")
      .value("missed", ipc::Change::missed, "The subscriber was too slow: ask for the list again.");
  nb::class_<News>(ipc, "News", "One change of a server's names.")
      .def_ro("change", &News::change)
      .def_ro("tensor", &News::tensor, "Of a name that was withdrawn, it has only the name and the version.");
  nb::class_<Loan>(ipc, "Loan", "Tensors of one publishing that one client has.")
      .def_ro("name", &Loan::name)
      .def_ro("version", &Loan::version)
      .def_ro("count", &Loan::count, "How many times it was got and is not given back.")
      .def_ro("nbytes", &Loan::bytes, "Of the memory, which is the same for all of them.");
  nb::class_<Guest>(ipc, "Guest", "One client, as its server sees it.")
      .def_ro("number", &Guest::number, "In the order of arrival.")
      .def_ro("user", &Guest::user, "The user id, as the kernel gave it.")
      .def_ro("connected", &Guest::connected, "False for one that has left, and that still holds something.")
      .def_ro("subscribed", &Guest::subscribed, "The connection is that of a Subscription.")
      .def_ro("loans", &Guest::loans);
}

void bind_server(nb::module_& ipc) {
  const ipc::ServerOptions usual;
  nb::class_<OwnServer>(ipc, "Server", "Publishes tensors under names, over a Unix-domain socket at a path.")
      .def("__init__", &make_server, nb::arg("path"), nb::kw_only(), nb::arg("users") = std::vector<std::uint32_t>(),
           nb::arg("most_clients") = usual.most_clients, nb::arg("most_names") = usual.most_names,
           nb::arg("most_name_bytes") = usual.most_name_bytes, nb::arg("most_loans") = usual.most_loans,
           nb::arg("remembered") = usual.remembered, nb::arg("patience") = 5.0,
           "Listen at `path`. Without `users`, only processes of this user may connect. The others bound what clients "
           "can make the server do; `patience` is for one that says nothing, in seconds.")
      .def(
          "publish",
          [](const OwnServer& server, std::string_view name, const Tensor& tensor, const Stream& stream,
             bool read_only) {
            const Tensor mine = tensor.share();  // another thread may close the Python object meanwhile
            return without_gil([&] { return server->publish(name, mine, stream, access_of(read_only)); });
          },
          nb::arg("name"), nb::arg("tensor"), nb::kw_only(), nb::arg("stream"), nb::arg("read_only") = false,
          "Publish a Tensor, or all bytes of a Buffer, in place of an earlier one of that name. Clients' streams wait "
          "for what was put on `stream`. With `read_only`, clients cannot write it; memory of Vulkan cannot be lent "
          "so. Return its version.")
      .def(
          "publish",
          [](const OwnServer& server, std::string_view name, const Buffer& buffer, const Stream& stream,
             bool read_only) {
            const Buffer mine = buffer.share();
            return without_gil([&] { return server->publish(name, mine, stream, access_of(read_only)); });
          },
          nb::arg("name"), nb::arg("tensor"), nb::kw_only(), nb::arg("stream"), nb::arg("read_only") = false)
      .def(
          "withdraw",
          [](const OwnServer& server, std::string_view name) {
            return without_gil([&] { return server->withdraw(name); });
          },
          nb::arg("name"), "Take the name away. Those who hold the tensor keep it. Return whether there was one.")
      .def_prop_ro(
          "names", [](const OwnServer& server) { return without_gil([&] { return server->names(); }); },
          "A Listing for each name.")
      .def_prop_ro(
          "clients", [](const OwnServer& server) { return without_gil([&] { return server->stats().clients; }); },
          "A Guest for each client.")
      .def_prop_ro("path", [](const OwnServer& server) { return path_text(server->path()); })
      .def(
          "close", [](const OwnServer& server) { server.close(); },
          "Serve nobody any more, and remove the socket. What clients hold stays valid.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](const OwnServer& server, const nb::args&) { server.close(); });
}

void bind_client(nb::module_& ipc) {
  nb::class_<Subscription>(ipc, "Subscription", "A stream of news about names.")
      .def("next", &next, nb::arg("timeout") = nb::none(),
           "Return the next News, in order. `timeout` in seconds; Ctrl-C ends the wait. Raises Error: timed_out, "
           "peer_gone.");
  nb::class_<Client>(ipc, "Client", "A connection to a Server.")
      .def(
          "__init__",
          [](Client* self, nb::handle path, double timeout) {
            const std::string at = path_of(path);
            const auto most = limit(timeout);
            interruptibly([&] { new (self) Client(at, most); });
          },
          nb::arg("path"), nb::kw_only(), nb::arg("timeout") = 5.0,
          "Connect to the server at `path`. All time limits are in seconds. Ctrl-C ends every wait.")
      .def(
          "list",
          [](Client& client, std::string_view pattern, double timeout) {
            const auto most = limit(timeout);
            return interruptibly([&] { return client.list(pattern, most); });
          },
          nb::arg("pattern") = "*", nb::kw_only(), nb::arg("timeout") = 5.0,
          "A Listing for each name that is `pattern`, or begins with what stands before the '*' at its end.")
      .def(
          "get",
          [](Client& client, std::string_view name, const Stream& stream, double timeout) {
            const auto most = limit(timeout);
            return interruptibly([&] { return client.get(name, stream, most); });
          },
          nb::arg("name"), nb::kw_only(), nb::arg("stream"), nb::arg("timeout") = 5.0,
          "Return the tensor of that name: the server's memory, usable on `stream`. It stays valid until it is closed.")
      .def(
          "subscribe",
          [](const Client& client, std::string_view pattern, double timeout) {
            const auto most = limit(timeout);
            return Subscription(interruptibly([&] { return client.subscribe(pattern, most); }));
          },
          nb::arg("pattern") = "*", nb::kw_only(), nb::arg("timeout") = 5.0,
          "Hear of all changes from now on to names that match `pattern`.")
      .def(
          "guests",
          [](Client& client, double timeout) {
            const auto most = limit(timeout);
            return interruptibly([&] { return client.guests(most); });
          },
          nb::kw_only(), nb::arg("timeout") = 5.0, "Return who is connected to the server, and what each holds.")
      .def(
          "close", [](Client& client) { without_gil([&] { client.close(); }); },
          "Ask nothing any more. Tensors that were got stay valid.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Client& client, const nb::args&) { without_gil([&] { client.close(); }); });
}

}  // namespace

void close_servers_at_exit() { nb::module_::import_("atexit").attr("register")(nb::cpp_function(&close_servers)); }

void bind_names(nb::module_& ipc) {
  bind_values(ipc);
  bind_server(ipc);
  bind_client(ipc);
}

}  // namespace weir::python
