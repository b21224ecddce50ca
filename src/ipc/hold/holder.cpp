// SPDX-License-Identifier: Apache-2.0
// The sockets of a holder: one thread, one poll, one packet of each client in turn.
#include "weir/holder.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/forks.hpp"
#include "base/loaded_code.hpp"
#include "base/reports_later.hpp"
#include "ipc/channel/deadline.hpp"
#include "ipc/hold/kept_file.hpp"
#include "ipc/hold/place.hpp"
#include "ipc/hold/session.hpp"
#include "ipc/own_failure.hpp"
#include "ipc/own_socket.hpp"
#include "ipc/packets.hpp"
#include "ipc/peer.hpp"
#include "weir/error.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::ipc {
namespace {

using namespace detail::hold;
using detail::channel::Deadline;

struct Client {
  Client(detail::ConnectedSocket from, Session<KeptFile> with, const Deadline& by)
      : socket(std::move(from)), session(std::move(with)), acts_by(by) {}
  /// Return whether the holder has patience with it, and not for ever: it has a place or room that others may need.
  [[nodiscard]] bool has_to_act() const noexcept {
    return !session.greeted() || session.has_begun_a_set() || (session.is_sending_a_set() && !waits_for_others());
  }
  /// Return whether it took all that it was sent, and gets no more because of what others do not take.
  [[nodiscard]] bool waits_for_others() const noexcept {
    int unread = 0;
    return jammed && ::ioctl(socket.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
  }
  detail::OwnSocket socket;
  Session<KeptFile> session;
  Deadline acts_by;     // if it has to act
  bool jammed = false;  // the system has no room for more files on their way
};

// Files that are open for a moment, or belong to the process.
constexpr std::size_t other_files = 64 + detail::most_sent_files;

std::size_t files_for(const HolderOptions& options) {
  if (options.files != 0) return options.files;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
  const std::size_t needed = options.connections + other_files;
  return limit.rlim_cur > needed + 64 ? limit.rlim_cur - needed : 64;
}

HolderOptions checked(const HolderOptions& options) {
  if (options.sets == 0 || options.tensors == 0 || options.bytes == 0 || options.connections == 0)
    throw Error(Errc::invalid_argument, "holder: a limit of 0");
  if (options.patience.count() <= 0) throw Error(Errc::invalid_argument, "holder: patience has to be above 0");
  return options;
}

constexpr std::chrono::milliseconds rest{20};  // until the system may have memory again

// The earlier one of two limits as poll() takes them.
int sooner(int one, int other) noexcept { return one < 0 || (other >= 0 && other < one) ? other : one; }

spi::UniqueFd open_spare() { return spi::UniqueFd(::eventfd(0, EFD_CLOEXEC)); }

}  // namespace

struct Holder::State {
  State(const std::string& path, const HolderOptions& opts)
      : options(checked(opts)),
        store(Limits{options.sets, options.tensors, options.bytes, files_for(options)}),
        bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        place(path, options.other_users),
        packet(largest_packet) {
    if (!bell || !spare) throw Error({errno, std::generic_category()}, "holder: eventfd failed");
  }

  const HolderOptions options;
  const std::uint32_t process = detail::fork_generation;
  mutable std::mutex mutex;  // of what follows; not held while the thread waits
  Store<KeptFile> store;
  std::list<Client> clients;
  spi::UniqueFd bell;  // rings once stop() was called
  Place place;
  spi::UniqueFd spare = open_spare();  // is closed where there is no other file for a client
  std::optional<Deadline> accepts_again;  // until then there is no file for any client
  Packet packet;
  Packet outgoing;
  spi::ForkLink link{*this};  // the last member, as ForkLink requires

  [[nodiscard]] bool inherited() const noexcept { return process != detail::fork_generation; }
  void check_process() const {
    if (inherited()) throw Error(Errc::unsupported, "ipc::Holder: the parent of this process has the holder");
  }

  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::child) bell.reset();
  }

  void accept() {
    // The file of a client that was dropped may have been closed after the attempt to have the spare one back.
    if (!spare) spare = open_spare();
    if (!spare) {
      accepts_again = Deadline(rest);
      return;
    }
    spi::UniqueFd socket(::accept4(place.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE)) {  // take the client and drop it, so that it learns of this
      spare.reset();
      {
        const detail::ConnectedSocket dropped(
            spi::UniqueFd(::accept4(place.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
      }
      spare = open_spare();
      if (!spare) accepts_again = Deadline(rest);  // poll() would not wait otherwise
      return;
    }
    if (!socket && (errno == ENOBUFS || errno == ENOMEM)) accepts_again = Deadline(rest);
    if (!socket) return;
    detail::ConnectedSocket client(std::move(socket));
    if (!options.other_users && detail::user_of(client.get()) != ::geteuid()) return;
    // One more than the limit, so that somebody learns why.
    if (clients.size() > options.connections) return;
    const Deadline greets_by(options.patience);
    if (clients.size() == options.connections)
      clients.emplace_back(std::move(client), Session<KeptFile>(store, Refused{Why::connections, options.connections}),
                           greets_by);
    else
      clients.emplace_back(std::move(client), Session<KeptFile>(store), greets_by);
  }

  /// Report the exception that is being handled, unless it is the client's doing.
  static bool cut_off() noexcept {
    detail::report_own_failure("holder: a client is cut off");
    return false;
  }

  /// Return false when the client is to be cut off.
  bool receive(Client& client) {
    std::vector<spi::StrangerFd> files;
    files.reserve(detail::most_sent_files);
    const auto arrival = detail::receive_packet(client.socket.get(), packet, files);
    if (arrival.error == EAGAIN || arrival.error == EINTR) return true;
    if (arrival.bytes == 0) return false;
    try {
      if (arrival.bytes < 0) detail::fail_socket("recvmsg", arrival.error);
      const auto bytes = Bytes(packet).first(static_cast<std::size_t>(arrival.bytes));
      if (arrival.cut) detail::hold::violated("a packet is too large");
      std::vector<KeptFile> kept;
      for (spi::StrangerFd& file : files) kept.emplace_back(std::move(file));
      client.session.receive(bytes, std::move(kept), arrival.files_lost);
      if (!client.session.is_sending_a_set()) client.acts_by = Deadline(options.patience);
      return true;
    } catch (...) {  // it broke the protocol, or there is no memory for what it wants
      return cut_off();
    }
  }

  /// Let go of what a client that stands still keeps from others. Return false when it is to be cut off.
  static bool lose_patience(Client& client) {
    if (!client.session.greeted() || client.session.is_sending_a_set()) return false;
    client.session.give_up_set();
    return true;
  }

  bool send(Client& client) {
    // It has the time that it may take from the moment at which it can take something.
    if (client.waits_for_others() || !client.session.is_sending_a_set()) client.acts_by = Deadline(options.patience);
    try {
      std::vector<const KeptFile*> files;
      client.session.compose(outgoing, files);
      std::vector<int> numbers;
      for (const KeptFile* file : files) numbers.push_back(file->get());
      const auto count = detail::send_packet(client.socket.get(), outgoing, numbers, false);
      client.jammed = count < 0 && errno == ETOOMANYREFS;
      if (count < 0 && (errno == EAGAIN || client.jammed)) return true;
      if (count < 0) detail::fail_socket("sendmsg", errno);
      client.session.sent();
      client.acts_by = Deadline(options.patience);
      return !client.session.ends();
    } catch (...) {
      return cut_off();
    }
  }

  /// Serve everybody who is ready, once. Return false when stop() was called. What the system lacks for a moment ends
  /// no holder, because everything that it holds would end, too.
  bool turn() {
    try {
      return serve();
    } catch (const std::bad_alloc&) {
      detail::report_own_failure("holder");
      std::this_thread::sleep_for(rest);
      return true;
    }
  }

  bool serve() {
    check_process();
    if (accepts_again && accepts_again->over()) accepts_again.reset();
    std::vector<pollfd> entries{{bell.get(), POLLIN, 0}, {accepts_again ? -1 : place.socket(), POLLIN, 0}};
    constexpr int pause = 20;  // milliseconds, until there may be room for files on their way
    int most = accepts_again ? accepts_again->milliseconds() : -1;
    {
      const std::scoped_lock lock(mutex);
      for (const Client& client : clients) {
        const bool sends = client.session.has_packet() && !client.jammed;
        entries.push_back({client.socket.get(), static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN), 0});
        if (client.jammed) most = sooner(most, pause);
        if (client.has_to_act()) most = sooner(most, client.acts_by.milliseconds());
      }
    }
    if (::poll(entries.data(), entries.size(), most) < 0) {
      if (errno == ENOMEM) std::this_thread::sleep_for(rest);
      if (errno == EINTR || errno == ENOMEM) return true;
      throw Error({errno, std::generic_category()}, "holder: poll failed");
    }
    if (entries[0].revents != 0) {
      eventfd_t rings = 0;
      (void)::eventfd_read(bell.get(), &rings);
      return false;
    }
    const detail::ReportsLater later;
    const std::scoped_lock lock(mutex);
    std::size_t i = 2;
    for (auto client = clients.begin(); client != clients.end(); ++i) {
      const auto events = entries[i].revents;
      bool stays = true;
      if (client->session.has_packet() && ((events & POLLOUT) != 0 || client->jammed)) stays = send(*client);
      if (stays && (events & (POLLIN | POLLHUP | POLLERR)) != 0) stays = receive(*client);
      if (stays && client->has_to_act() && client->acts_by.over()) stays = lose_patience(*client);
      client = stays ? std::next(client) : clients.erase(client);
    }
    if (entries[1].revents != 0) accept();
    return true;
  }
};

Holder::Holder(const std::string& path, const HolderOptions& options) : state_(std::make_unique<State>(path, options)) {
  detail::keep_code_loaded();  // for the files that are closed under its lock
}

// A thread that only the parent has may have been changing an inherited one.
Holder::~Holder() {
  if (state_->inherited()) (void)state_.release();
}

void Holder::run() {
  while (state_->turn()) {
  }
}

void Holder::stop() noexcept { (void)::eventfd_write(state_->bell.get(), 1); }

HolderStats Holder::stats() const {
  state_->check_process();
  const std::scoped_lock lock(state_->mutex);
  const Usage& used = *state_->store.usage();
  return {state_->store.size(), used.bytes, used.files, state_->clients.size()};
}

}  // namespace weir::ipc
