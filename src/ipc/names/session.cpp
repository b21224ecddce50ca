// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/session.hpp"

#include <utility>

#include "ipc/names/packet.hpp"

namespace weir::detail::names {
namespace {

// Adds entries to an answer until the packet is full.
template <class List>
auto filling(List& list) {
  return [&list, size = list_overhead](const auto& entry) mutable {
    size += encoded_size(entry);
    list.more = size > largest_answer;
    if (!list.more) list.all.push_back(entry);
    return !list.more;
  };
}

Reply reply(const Answer& answer) { return {encode(answer), false, false, nullptr, 0}; }

}  // namespace

Packet Session::refuse(std::uint32_t request, Reason reason, std::string text) {
  return encode(Refused{request, reason, std::move(text)});
}

Reply Session::take(Bytes packet) {
  const Question question = decode_question(packet);
  if (subscribed()) violated("a question on a connection for news");
  if (std::holds_alternative<Hello>(question) == greeted_) violated(greeted_ ? "a second greeting" : "no greeting");
  return std::visit([this](const auto& asked) { return answer(asked); }, question);
}

Reply Session::answer(const Hello& hello) {
  if (hello.version != protocol_version) {
    Reply made{refuse(0, Reason::version,
                      "the server speaks version " + std::to_string(protocol_version) +
                          " of the protocol, the client version " + std::to_string(hello.version))};
    made.ends = true;
    return made;
  }
  greeted_ = true;
  pattern_ = hello.pattern;
  seen_ = directory_.version();
  if (subscribed()) ledger_.subscribe(client_);
  Reply made = reply(Welcome{protocol_version});
  made.opens_channel = !subscribed();
  return made;
}

Reply Session::answer(const ListNames& asks) const {
  Names names{asks.request, false, {}};
  (void)directory_.each(asks.pattern, asks.after, filling(names));
  return reply(names);
}

Reply Session::answer(const GetTensor& asks) const {
  auto found = directory_.find(asks.name);
  if (!found)
    return {refuse(asks.request, Reason::unknown_name,
                   "there is no tensor of this name; published are " + std::to_string(directory_.size()))};
  if (found->listing.bytes != 0 && ledger_.loans(client_) >= most_loans_)
    return {refuse(asks.request, Reason::too_many_loans,
                   "the client holds " + std::to_string(most_loans_) + " tensors already; it has to close some")};
  Reply made = reply(GotTensor{asks.request, found->listing});
  made.request = asks.request;
  if (found->listing.bytes != 0) made.lends = std::move(found);
  return made;
}

Reply Session::answer(const ListGuests& asks) const {
  Guests guests{asks.request, false, {}};
  (void)ledger_.each(asks.after, asks.after_version, filling(guests));
  return reply(guests);
}

std::optional<Packet> Session::news() {
  const auto next = directory_.after(seen_, pattern_);
  return next ? std::optional(encode(*next)) : std::nullopt;
}

}  // namespace weir::detail::names
