// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/host.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/library_thread.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/packets.hpp"
#include "weir/error.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail::names {
namespace {

constexpr char purpose[] = "ipc::Server";
constexpr int at_once = 16;  // connections that are taken before others are served
constexpr std::chrono::milliseconds rest{
    100};  // before the next attempt to take a connection for which there was no file

void set_event(int epoll, int how, int file, std::uint32_t wanted) {
  epoll_event event{};
  event.events = wanted;
  event.data.fd = file;
  if (::epoll_ctl(epoll, how, file, &event) != 0) fail_descriptor(purpose, "epoll_ctl", errno);
}

}  // namespace

Host::Host(const std::string& path, const ipc::ServerOptions& options, const Directory& directory, Ledger& ledger)
    : options_(options),
      own_user_(::geteuid()),
      directory_(directory),
      ledger_(ledger),
      listener_(path, std::ranges::any_of(options.users, [](std::uint32_t user) { return user != ::geteuid(); })),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  try {
    if (!epoll_ || !bell_) fail_descriptor(purpose, epoll_ ? "eventfd" : "epoll_create1", errno);
    set_event(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), EPOLLIN);
    set_event(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    listener_.remove();
    throw Error(error.code(), std::string("ipc::Server: ") + error.what());
  }
}

Host::~Host() {
  ends_.store(true);
  ring();
  thread_.join();
  listener_.remove();
}

void Host::ring() noexcept { (void)::eventfd_write(bell_.get(), 1); }

// The child has neither the thread nor a part in the server.
void Host::fork(spi::ForkMoment moment) noexcept {
  if (moment != spi::ForkMoment::child) return;
  listener_.forget();
  epoll_.reset();
  bell_.reset();
}

void Host::run() noexcept {
  sync::name_thread("weir names");
  const LibraryThread mark;
  std::array<epoll_event, 64> events;
  while (!ends_.load()) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds_to_wait());
    if (count < 0 && errno != EINTR) {
      report({{errno, std::generic_category()}, "ipc::Server: epoll_wait", "nobody is served any more"});
      break;
    }
    for (int i = 0; i < count && !ends_.load(); ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      const int file = event.data.fd;
      if (file == bell_.get()) {
        eventfd_t rings = 0;
        (void)::eventfd_read(file, &rings);
        tell_news();
      } else if (file == listener_.get()) {
        accept_some();
      } else {
        answer(file, event.events);
      }
    }
    end_silent();
    if (!accepts_ && channel::Clock::now() >= accepts_again_) watch_listener(true);
  }
  visitors_.clear();
}

// The first moment at which something has to be done although nobody says anything.
int Host::milliseconds_to_wait() const noexcept {
  auto first = channel::Clock::time_point::max();
  if (!accepts_) first = accepts_again_;
  for (const auto& [file, visitor] : visitors_) {
    if (!visitor->session().greeted()) first = std::min(first, visitor->must_greet_by());
  }
  if (first == channel::Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - channel::Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

void Host::end_silent() noexcept {
  const auto now = channel::Clock::now();
  std::erase_if(visitors_, [&](const auto& entry) {
    const Visitor& visitor = *entry.second;
    if (visitor.session().greeted() || now < visitor.must_greet_by()) return false;
    ledger_.leave(visitor.session().client());
    return true;
  });
}

void Host::answer(int file, std::uint32_t events) noexcept {
  const auto at = visitors_.find(file);
  if (at == visitors_.end()) return;
  Visitor& visitor = *at->second;
  try {
    if (visitor.attend((events & ~std::uint32_t{EPOLLOUT}) != 0)) return watch(visitor, EPOLL_CTL_MOD);
  } catch (const std::exception&) {  // the client broke the protocol, has left, or there is no memory to serve it
  }
  const auto client = visitor.session().client();
  visitors_.erase(at);
  ledger_.leave(client);
}

void Host::tell_news() noexcept {
  std::vector<int> subscribed;
  try {
    for (const auto& [file, visitor] : visitors_) {
      if (visitor->session().subscribed()) subscribed.push_back(file);
    }
  } catch (const std::exception&) {  // no memory; the next change tells of this one, too
  }
  for (const int file : subscribed) answer(file, EPOLLOUT);
}

void Host::watch(Visitor& visitor, int how) { set_event(epoll_.get(), how, visitor.socket(), visitor.wanted()); }

void Host::watch_listener(bool wanted) noexcept {
  try {
    set_event(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), wanted ? std::uint32_t{EPOLLIN} : 0);
    accepts_ = wanted;
  } catch (const std::exception&) {  // stays as it is
  }
  accepts_again_ = channel::Clock::now() + rest;
}

void Host::accept_some() noexcept {
  for (int i = 0; i < at_once; ++i) {
    spi::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const bool ran_out = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (ran_out) watch_listener(false);
      return;
    }
    try {
      admit(std::move(socket));
    } catch (const std::exception&) {  // no memory for this client, which finds its connection closed
    }
  }
}

bool Host::may_connect(std::uint32_t user) const noexcept {
  if (options_.users.empty()) return user == own_user_;
  return std::ranges::find(options_.users, user) != options_.users.end();
}

void Host::admit(spi::UniqueFd socket) {
  const auto refuse = [&](Reason reason, const std::string& text) {
    (void)send_packet(socket.get(), Session::refuse(0, reason, text), {}, false);
  };
  const auto user = user_of(socket.get());
  if (!may_connect(user))
    return refuse(Reason::not_allowed,
                  "user " + std::to_string(user) + " may not connect; ServerOptions::users names those who may");
  if (ledger_.clients() >= options_.most_clients)
    return refuse(Reason::too_many_clients, "there are " + std::to_string(options_.most_clients) + " clients already");
  const auto client = ledger_.enter(user);
  try {
    const int file = socket.get();
    auto visitor =
        std::make_unique<Visitor>(std::move(socket), Session(directory_, ledger_, client, options_.most_loans),
                                  channel::Clock::now() + options_.patience);
    Visitor& added = *visitors_.insert_or_assign(file, std::move(visitor)).first->second;
    watch(added, EPOLL_CTL_ADD);
  } catch (...) {
    ledger_.leave(client);
    throw;
  }
}

}  // namespace weir::detail::names
