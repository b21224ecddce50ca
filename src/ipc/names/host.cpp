// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/host.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/library_thread.hpp"
#include "base/loaded_code.hpp"
#include "base/start_thread.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/own_failure.hpp"
#include "ipc/packets.hpp"
#include "ipc/peer.hpp"
#include "weir/error.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail::names {
namespace {

constexpr char purpose[] = "ipc::Server";
constexpr int at_once = 16;  // connections that are taken before others are served
constexpr std::chrono::milliseconds rest{
    100};  // before the next attempt to take a connection for which there was no file

constexpr std::chrono::milliseconds jam{20};  // until there may be room for files on their way

std::uint64_t key(int file) noexcept { return static_cast<std::uint64_t>(file); }

void check(int error) {
  if (error != 0) fail_descriptor(purpose, "epoll_ctl", error);
}

}  // namespace

Host::Host(const std::string& path, const ipc::ServerOptions& options, const Directory& directory, Ledger& ledger)
    : options_(options),
      own_user_(::geteuid()),
      directory_(directory),
      ledger_(ledger),
      listener_(path, std::ranges::any_of(options.users, [](std::uint32_t user) { return user != ::geteuid(); })) {
  try {
    files_ = FileSet::make(purpose);
    check(files_.add(listener_.get(), EPOLLIN, key(listener_.get())));
    start();
  } catch (...) {
    listener_.remove();
    throw;
  }
}

void Host::start() {
  keep_code_loaded();
  try {
    thread_ = start_thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error(error.code(), std::string("ipc::Server: no thread to serve clients: ") + error.what());
  }
}

Host::~Host() {
  ends_.store(true);
  ring();
  thread_.join();
  listener_.remove();
}

void Host::leave_to_thread() noexcept {
  ends_.store(true);
  thread_.detach();
  listener_.remove();
  listener_.end();
}

void Host::ring() noexcept { (void)files_.ring(); }

// The child has neither the thread nor a part in the server.
void Host::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::child) files_.reset();
}

void Host::run() noexcept {
  sync::name_thread("weir names");
  const LibraryThread mark;
  std::array<epoll_event, 64> room;
  while (!ends_.load()) {
    const auto ready = files_.wait(room, milliseconds_to_wait());
    if (ready.error != 0) {
      report({{ready.error, std::generic_category()}, "ipc::Server: epoll_wait", "nobody is served any more"});
      break;
    }
    if (ready.rung && !ends_.load()) {
      let_send([](const Visitor& visitor) { return visitor.session().subscribed(); });  // the news
    }
    for (const epoll_event& event : ready.events) {
      if (ends_.load()) break;
      const int file = static_cast<int>(event.data.u64);
      file == listener_.get() ? accept_some() : answer(file, event.events);
    }
    end_silent();
    let_send([](const Visitor& visitor) { return visitor.jammed(); });
    if (!accepts_ && channel::Clock::now() >= accepts_again_) watch_listener(true);
  }
  visitors_.clear();
}

// The first moment at which something has to be done although nobody says anything.
int Host::milliseconds_to_wait() const noexcept {
  auto first = channel::Clock::time_point::max();
  if (!accepts_) first = accepts_again_;
  for (const auto& [file, visitor] : visitors_) {
    if (visitor->jammed()) first = std::min(first, channel::Clock::now() + jam);
    const auto& deadline = visitor->must_greet_by();
    if (!visitor->session().greeted() && !deadline.endless()) first = std::min(first, deadline.at());
  }
  if (first == channel::Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - channel::Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

void Host::end_silent() noexcept {
  for (auto at = visitors_.begin(); at != visitors_.end();) {
    const Visitor& visitor = *at->second;
    at = !visitor.session().greeted() && visitor.must_greet_by().over() ? end(at) : std::next(at);
  }
}

void Host::answer(int file, std::uint32_t events) noexcept {
  const auto at = visitors_.find(file);
  if (at == visitors_.end()) return;
  Visitor& visitor = *at->second;
  try {
    if (visitor.attend((events & ~std::uint32_t{EPOLLOUT}) != 0))
      return check(files_.change(file, visitor.wanted(), key(file)));
  } catch (...) {  // the client broke the protocol, has left, or this process lacks something to serve it
    report_own_failure("ipc::Server: a client is cut off");
  }
  end(at);
}

// Return the next one. The set is told because the file is closed only later.
Host::Visitors::iterator Host::end(Visitors::iterator at) noexcept {
  const auto client = at->second->session().client();
  files_.remove(at->first);
  const auto next = visitors_.erase(at);
  ledger_.leave(client);
  return next;
}

// Let all visitors of whom `which` is true send what there is for them. Takes no memory itself, so that nobody is left
// out. Those whom it serves may leave.
template <class Which>
void Host::let_send(const Which& which) noexcept {
  for (auto at = visitors_.begin(); at != visitors_.end();) {
    const int file = at->first;
    if (which(*at->second)) answer(file, EPOLLOUT);
    at = visitors_.upper_bound(file);
  }
}

void Host::watch_listener(bool wanted) noexcept {
  const std::uint32_t events = wanted ? std::uint32_t{EPOLLIN} : 0;
  if (files_.change(listener_.get(), events, key(listener_.get())) == 0) accepts_ = wanted;  // else it stays as it is
  accepts_again_ = channel::Clock::now() + rest;
}

void Host::accept_some() noexcept {
  for (int i = 0; i < at_once; ++i) {
    ConnectedSocket socket(spi::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    if (!socket) {
      const bool ran_out = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (ran_out) watch_listener(false);
      return;
    }
    try {
      admit(std::move(socket));
    } catch (...) {  // this client finds its connection closed
      report_own_failure("ipc::Server: a client is cut off");
    }
  }
}

bool Host::may_connect(std::uint32_t user) const noexcept {
  if (options_.users.empty()) return user == own_user_;
  return std::ranges::find(options_.users, user) != options_.users.end();
}

void Host::admit(ConnectedSocket socket) {
  const auto refuse = [&](Reason reason, const std::string& text) {
    (void)send_packet(socket.get(), Session::refuse(0, reason, text), {}, false);
  };
  const auto known = user_of(socket.get());
  if (!known) fail_socket("getsockopt", errno);
  const std::uint32_t user = *known;
  if (!may_connect(user))
    return refuse(Reason::not_allowed,
                  "user " + std::to_string(user) + " may not connect; ServerOptions::users names those who may");
  if (!ledger_.has_room(user, options_.most_clients, options_.users))
    return refuse(Reason::too_many_clients,
                  "there are " + std::to_string(ledger_.clients()) + " clients already; there may be " +
                      std::to_string(options_.most_clients) + ", and each user who has none yet keeps a place");
  const auto client = ledger_.enter(user);
  const int file = socket.get();
  try {
    auto visitor =
        std::make_unique<Visitor>(std::move(socket), user, Session(directory_, ledger_, client, options_.most_loans),
                                  channel::Deadline(options_.patience));
    Visitor& added = *visitors_.insert_or_assign(file, std::move(visitor)).first->second;
    check(files_.add(file, added.wanted(), key(file)));
  } catch (...) {  // nobody would hear this client. It is not watched, and its file's number may be in use again
    visitors_.erase(file);
    ledger_.leave(client);
    throw;
  }
}

}  // namespace weir::detail::names
