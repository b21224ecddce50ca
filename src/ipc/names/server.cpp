// SPDX-License-Identifier: Apache-2.0
#include "weir/server.hpp"

#include <sys/types.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "base/reports_later.hpp"
#include "ipc/exporting.hpp"
#include "ipc/names/directory.hpp"
#include "ipc/names/host.hpp"
#include "ipc/names/ledger.hpp"
#include "ipc/names/messages.hpp"
#include "weir/error.hpp"
#include "weir/tensor.hpp"

namespace weir::ipc {
namespace {

using namespace detail::names;

void check(const char* name, std::size_t value, std::size_t most) {
  if (value != 0 && value <= most) return;
  throw Error(Errc::invalid_argument, "ipc::Server: " + std::string(name) + " is " + std::to_string(value) +
                                          "; it may be 1 to " + std::to_string(most));
}

ServerOptions checked(ServerOptions options) {
  std::ranges::sort(options.users);
  options.users.erase(std::unique(options.users.begin(), options.users.end()), options.users.end());
  check("most_clients", options.most_clients, 4096);
  if (options.most_clients < options.users.size())
    throw Error(Errc::invalid_argument, "ipc::Server: most_clients is " + std::to_string(options.most_clients) +
                                            ", and there are " + std::to_string(options.users.size()) +
                                            " users, for each of whom a place is kept; allow more clients");
  check("most_names", options.most_names, 65536);
  check("most_name_bytes", options.most_name_bytes, longest_name);
  check("most_loans", options.most_loans, 65536);
  check("remembered", options.remembered, 65536);
  if (options.patience.count() <= 0) throw Error(Errc::invalid_argument, "ipc::Server: patience has to be above 0");
  return options;
}

// The device as this process calls it, the kind of memory, and what clients may do with it.
std::string where(const Buffer& buffer, Access access) {
  return buffer.device().id() + ' ' + std::string(to_string(buffer.kind())) +
         (access == Access::read_only ? ", read-only" : "");
}

}  // namespace

struct Server::State {
  State(std::string at, const ServerOptions& options)
      : path(std::move(at)),
        most_name_bytes(options.most_name_bytes),
        directory(options.most_names, options.remembered),
        host(std::make_unique<Host>(path, options, directory, ledger)) {}

  struct Entered {
    detail::ReportsLater later;  // than the lock
    std::unique_lock<std::mutex> lock;
  };
  /// Begin a call on an open server. A child does not take the lock, which a thread of its parent may have had.
  [[nodiscard]] Entered enter() {
    if (process != detail::fork_generation)
      throw Error(Errc::unsupported, "ipc::Server: the parent of this process has the server");
    std::unique_lock lock(closing);
    if (!host) throw Error(Errc::closed, "ipc::Server: the server is closed");
    return {{}, std::move(lock)};
  }

  const std::string path;
  const std::size_t most_name_bytes;
  const std::uint32_t process = detail::fork_generation;
  Directory directory;
  Ledger ledger;
  std::mutex closing;          // of the pointer below
  std::unique_ptr<Host> host;  // none after close()
  bool left = false;           // to the host's thread
};

Server::Server(const std::string& path, const ServerOptions& options)
    : state_(std::make_unique<State>(path, checked(options))) {}

Server::Server(Server&&) noexcept = default;

Server& Server::operator=(Server&& other) noexcept {
  Server ended(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Server::~Server() {
  close();
  const bool keeps = state_ && (state_->left || state_->process != detail::fork_generation);
  if (keeps) (void)state_.release();  // a thread may be using it, which only the parent has, or which is this one
}

std::uint64_t Server::publish(std::string_view name, const Tensor& tensor, const Stream& stream, Access asked) {
  constexpr const char* operation = "ipc::Server::publish";
  State& state = *state_;
  const auto entered = state.enter();
  if (!is_name(name) || name.size() > state.most_name_bytes)
    throw Error(Errc::invalid_argument, std::string(operation) + ": a name has 1 to " +
                                            std::to_string(state.most_name_bytes) +
                                            " bytes, which are UTF-8 without control characters and '*'");
  const Buffer& buffer = tensor.buffer();
  const Layout& layout = tensor.layout();
  if (layout.shape.size() > most_dimensions)
    throw Error(Errc::invalid_argument, std::string(operation) + ": a tensor of " +
                                            std::to_string(layout.shape.size()) + " dimensions; it may have " +
                                            std::to_string(most_dimensions));
  const bool has_memory = layout.elements() != 0;
  if (has_memory) {
    detail::check_shareable(operation, buffer, asked);
    (void)detail::shared_place(operation, buffer);
  }
  const Access access = has_memory ? detail::granted(*buffer.location().segment, asked) : asked;
  Listing listing;
  listing.name = name;
  listing.layout = layout;
  listing.bytes = has_memory ? buffer.size() : 0;
  listing.where = where(buffer, access);
  auto made = std::make_shared<Publication>(std::move(listing), Buffer(), access, Stream(stream.device()));
  if (has_memory) {
    made->buffer = buffer.share();
    made->stream.wait(stream.record());
    buffer.order_after_uses(made->stream);  // the thread that serves cannot mark an application's stream
  } else {
    made->listing.layout.byte_offset = 0;
  }
  const auto version = state.directory.publish(made);
  state.host->ring();
  return version;
}

std::uint64_t Server::publish(std::string_view name, const Buffer& buffer, const Stream& stream, Access access) {
  return publish(name, buffer.view(u8, {static_cast<std::int64_t>(buffer.size())}), stream, access);
}

bool Server::withdraw(std::string_view name) {
  const auto entered = state_->enter();
  const bool was = state_->directory.withdraw(name);
  if (was) state_->host->ring();
  return was;
}

std::vector<Listing> Server::names() const {
  const auto entered = state_->enter();
  std::vector<Listing> all;
  state_->directory.each("*", "", [&](const Listing& listing) {
    all.push_back(listing);
    return true;
  });
  return all;
}

ServerStats Server::stats() const {
  const auto entered = state_->enter();
  return {state_->directory.size(), state_->ledger.guests()};
}

const std::string& Server::path() const { return state_->path; }

void Server::close() noexcept {
  if (!state_ || state_->process != detail::fork_generation) return;
  std::unique_ptr<Host> ended;
  {
    const std::scoped_lock lock(state_->closing);
    ended = std::move(state_->host);
  }
  if (ended && ended->is_here()) {  // it cannot wait for itself
    ended.release()->leave_to_thread();
    state_->left = true;
  }
  ended.reset();
  state_->directory.clear();
}

}  // namespace weir::ipc
