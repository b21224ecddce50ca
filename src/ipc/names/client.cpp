// SPDX-License-Identifier: Apache-2.0
#include "weir/client.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/names/conversation.hpp"
#include "ipc/names/packet.hpp"
#include "ipc/slices.hpp"
#include "ipc/text.hpp"
#include "ipc/turns.hpp"
#include "weir/error.hpp"
#include "weir/memory_resource.hpp"

namespace weir::ipc {
namespace {

using namespace detail::names;
namespace names = detail::names;
using detail::Turns;
using detail::channel::Deadline;

constexpr char asking[] = "ipc::Client: another thread is asking the server";

constexpr std::uint32_t window = 16;  // one is on its way, and those that earlier calls gave up

/// Until the next question to a server that is busy.
void pause(const Deadline& deadline) {
  constexpr std::chrono::milliseconds most{20};
  std::this_thread::sleep_for(deadline.endless() ? most : std::min(most, deadline.left()));
  detail::check_interruption();
}

/// Counts what comes in a list, so that a server that lies does not fill this process's memory.
class Bound {
 public:
  Bound(const char* of, std::size_t most) noexcept : of_(of), left_(most), most_(most) {}
  void take() {
    if (left_ == 0) names::violated("a list of more than " + std::to_string(most_) + ' ' + of_);
    --left_;
  }

 private:
  const char* of_;
  std::size_t left_, most_;
};

template <class Wanted>
Wanted as(Answer answer) {
  auto* const wanted = std::get_if<Wanted>(&answer);
  if (!wanted) names::violated("an answer to another question");
  return std::move(*wanted);
}

std::string checked_pattern(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > longest_pattern || !detail::is_text(pattern))
    throw Error(Errc::invalid_argument, "ipc::Client: a pattern has 1 to " + std::to_string(longest_pattern) +
                                            " bytes, which are UTF-8 without control characters; '*' is for all names");
  return std::string(pattern);
}

// The peer may describe anything: what does not fit the memory is its fault, not the caller's.
Tensor tensor_over(Buffer buffer, const Listing& listing) {
  try {
    return {std::move(buffer), listing.layout};
  } catch (const Error& error) {
    names::violated(error.what());
  }
}

}  // namespace

struct Client::State {
  State(std::string at, const Deadline& deadline)
      : path(std::move(at)), talk(path, {}, deadline), link(detail::channel::make_link(talk.take_channel(), window)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { close(); }

  void check_open() const {
    if (link->inherited())
      throw Error(Errc::unsupported, "ipc::Client: the parent of this process has the client");
    if (closed.load()) throw Error(Errc::closed, "ipc::Client: the client is closed");
  }
  void close() noexcept {
    if (closed.exchange(true)) return;
    talk.end();
    link->close();
  }
  [[nodiscard]] Buffer receive(const Listing& listing, const Stream& stream, const Deadline& deadline);
  bool drop_what_came();

  const std::string path;
  std::atomic<bool> closed{false};
  Turns talking{"ipc::Client"};
  Conversation talk;
  const std::shared_ptr<detail::channel::Link> link;
};

// Buffers that earlier calls asked for and gave up come first, and go back.
Buffer Client::State::receive(const Listing& listing, const Stream& stream, const Deadline& deadline) {
  const auto wanted = [this](auto payload) { return talk.requests().brings(payload); };
  for (;;) {
    try {
      Parcel parcel = link->receive(stream, detail::end_of_slice(deadline), wanted);
      if (parcel.buffer.size() != listing.bytes) names::violated("a buffer of another size");
      return std::move(parcel.buffer);
    } catch (const Error& error) {
      if (error.code() != Errc::timed_out || deadline.over()) throw;
    }
    detail::check_interruption();
  }
}

// Give back what came for questions that were given up. Return whether there was something.
bool Client::State::drop_what_came() {
  link->look();
  const bool dropped = link->refuse_what_came();
  link->check();  // else the server's end of the conversation would be all that the caller hears of
  return dropped;
}

Client::Client(const std::string& path, std::chrono::milliseconds timeout)
    : state_(std::make_unique<State>(path, Deadline(timeout))) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

void Client::close() noexcept {
  if (state_) state_->close();
}

std::vector<Listing> Client::list(std::string_view pattern, std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  State& state = *state_;
  const Turns::Turn turn(state.talking, deadline, asking);
  state.check_open();
  (void)state.drop_what_came();
  std::vector<Listing> all;
  Bound names_left("names", most_listed_names);
  for (std::string after;;) {
    const auto request = state.talk.requests().next();
    auto names = as<Names>(state.talk.ask(ListNames{request, checked_pattern(pattern), after}, deadline));
    for (Listing& listing : names.all) {
      if (listing.name <= after || !matches(listing.name, pattern)) names::violated("names that were not asked for");
      names_left.take();
      after = listing.name;
      all.push_back(std::move(listing));
    }
    if (!names.more) return all;
    deadline.check("the list of names does not end", "ipc::Client");
  }
}

Tensor Client::get(std::string_view name, const Stream& stream, std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  State& state = *state_;
  if (!is_name(name))
    throw Error(Errc::invalid_argument, "ipc::Client::get: '" + std::string(name) + "' is no name of a tensor");
  const Turns::Turn turn(state.talking, deadline, asking);
  state.check_open();
  for (bool busy = false;;) {
    if (!state.drop_what_came() && busy) pause(deadline);  // the server lacks room that is not here
    const auto request = state.talk.requests().next();
    Answer answer = state.talk.ask(GetTensor{request, std::string(name)}, deadline);
    if (std::holds_alternative<names::Refused>(answer)) {
      deadline.check("the server is busy", "ipc::Client");
      busy = true;
      continue;
    }
    auto got = as<GotTensor>(std::move(answer));
    if (got.tensor.name != name) names::violated("another tensor");
    if (got.tensor.bytes == 0) return tensor_over(make_resource(stream.device())->allocate(0, stream), got.tensor);
    return tensor_over(state.receive(got.tensor, stream, deadline), got.tensor);
  }
}

std::vector<Guest> Client::guests(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  State& state = *state_;
  const Turns::Turn turn(state.talking, deadline, asking);
  state.check_open();
  (void)state.drop_what_came();
  std::vector<Guest> all;
  Bound clients_left("clients", most_listed_clients), loans_left("loans", most_listed_loans);
  for (std::uint64_t version = 0;;) {
    const auto request = state.talk.requests().next();
    auto some = as<Guests>(state.talk.ask(ListGuests{request, all.empty() ? 0 : all.back().number, version}, deadline));
    for (Guest& guest : some.all) {
      if (guest.loans.size() > 1) names::violated("several loans in one entry");
      const auto next = guest.loans.empty() ? 0 : guest.loans.front().version;
      if (!all.empty() && guest.number == all.back().number) {
        if (next <= version) names::violated("loans out of order");
        loans_left.take();
        all.back().loans.push_back(std::move(guest.loans.front()));
      } else {
        if (!all.empty() && guest.number < all.back().number) names::violated("clients out of order");
        clients_left.take();
        all.push_back(std::move(guest));
      }
      version = next;
    }
    if (!some.more) return all;
    deadline.check("the list of clients does not end", "ipc::Client");
  }
}

struct Subscription::State {
  State(const std::string& path, std::string pattern, const Deadline& deadline)
      : talk(path, std::move(pattern), deadline) {}
  Turns hearing{"ipc::Subscription"};
  Conversation talk;
  std::uint64_t version = 0;
};

Subscription Client::subscribe(std::string_view pattern, std::chrono::milliseconds timeout) const {
  state_->check_open();
  return Subscription(std::make_unique<Subscription::State>(state_->path, checked_pattern(pattern), Deadline(timeout)));
}

Subscription::Subscription(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Subscription::Subscription(Subscription&&) noexcept = default;
Subscription& Subscription::operator=(Subscription&&) noexcept = default;
Subscription::~Subscription() = default;

News Subscription::next(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  const Turns::Turn turn(state_->hearing, deadline, "ipc::Subscription: another thread is waiting for news");
  auto news = as<News>(state_->talk.hear(deadline));
  if (news.tensor.version <= state_->version) names::violated("news out of order");
  state_->version = news.tensor.version;
  return news;
}

}  // namespace weir::ipc
