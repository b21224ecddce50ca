// SPDX-License-Identifier: Apache-2.0
// What a stranger says about names.
#include <utility>

#include "ipc/names/messages.hpp"
#include "ipc/names/packet.hpp"
#include "ipc/names/types.hpp"

namespace weir::detail::names {
namespace {

std::string read_name(FieldReader& in) {
  std::string name = in.text(longest_name, "a name");
  if (!is_name(name)) violated("'" + name + "' is no name");
  return name;
}

ipc::Listing read_listing(FieldReader& in) {
  ipc::Listing tensor;
  tensor.version = in.number<std::uint64_t>("a version");
  tensor.bytes = in.number<std::uint64_t>("a size");
  tensor.layout.byte_offset = in.number<std::uint64_t>("an offset");
  tensor.layout.dtype.code = in.number<std::uint8_t>("a type");
  tensor.layout.dtype.bits = in.number<std::uint8_t>("a type");
  tensor.layout.dtype.lanes = in.number<std::uint16_t>("a type");
  const auto dimensions = in.number<std::uint32_t>("a shape");
  if (dimensions > most_dimensions) violated("a tensor of " + std::to_string(dimensions) + " dimensions");
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    tensor.layout.shape.push_back(in.number<std::int64_t>("a shape"));
    tensor.layout.strides.push_back(in.number<std::int64_t>("a stride"));
    if (tensor.layout.shape.back() < 0) violated("a negative extent");
  }
  tensor.name = read_name(in);
  tensor.where = in.text(longest_name, "a place");
  return tensor;
}

ipc::Guest read_guest(FieldReader& in) {
  ipc::Guest guest;
  guest.number = in.number<std::uint64_t>("a client");
  guest.user = in.number<std::uint32_t>("a user");
  const auto flags = in.number<std::uint16_t>("flags");
  if (flags > 3) violated("unknown flags of a client");
  guest.connected = (flags & 1) != 0;
  guest.subscribed = (flags & 2) != 0;
  const auto count = in.number<std::uint16_t>("loans");
  for (unsigned i = 0; i < count; ++i) {
    ipc::Loan loan;
    loan.version = in.number<std::uint64_t>("a loan");
    loan.count = in.number<std::uint64_t>("a loan");
    loan.bytes = in.number<std::uint64_t>("a loan");
    loan.name = read_name(in);
    guest.loans.push_back(std::move(loan));
  }
  return guest;
}

template <class Item, class Read>
std::pair<bool, std::vector<Item>> read_list(FieldReader& in, Read read) {
  const auto more = in.number<std::uint16_t>("a list");
  const auto count = in.number<std::uint16_t>("a list");
  if (more > 1 || (more == 1 && count == 0)) violated("a list of unknown form");
  std::pair<bool, std::vector<Item>> list{more == 1, {}};
  for (unsigned i = 0; i < count; ++i) list.second.push_back(read(in));
  return list;
}

ipc::News read_news(FieldReader& in) {
  const auto change = in.number<std::uint32_t>("a change");
  ipc::News read;
  switch (change) {
    case 1: return {ipc::Change::published, read_listing(in)};
    case 2: read.change = ipc::Change::withdrawn; break;
    case 3: read.change = ipc::Change::missed; break;
    default: violated("a change of type " + std::to_string(change));
  }
  read.tensor.version = in.number<std::uint64_t>("a version");
  if (read.change == ipc::Change::withdrawn) read.tensor.name = read_name(in);
  return read;
}

std::uint32_t read_request(FieldReader& in) {
  const auto request = in.number<std::uint32_t>("a request");
  if (request == 0) violated("request 0");
  return request;
}

}  // namespace

Question decode_question(Bytes packet) {
  FieldReader in(packet);
  const auto type = in.number<std::uint32_t>("a type");
  Question question;
  if (type == hello) {
    const auto version = in.number<std::uint32_t>("a version");
    question = Hello{version, in.text(longest_pattern, "a pattern")};
  } else if (type == list_names) {
    const auto request = read_request(in);
    auto pattern = in.text(longest_pattern, "a pattern");
    question = ListNames{request, std::move(pattern), in.text(longest_name, "a name")};
  } else if (type == get_tensor) {
    const auto request = read_request(in);
    question = GetTensor{request, in.text(longest_name, "a name")};
  } else if (type == list_guests) {
    const auto request = read_request(in);
    const auto after = in.number<std::uint64_t>("a client");
    question = ListGuests{request, after, in.number<std::uint64_t>("a version")};
  } else {
    violated("a message of type " + std::to_string(type));
  }
  in.end();
  return question;
}

Answer decode_answer(Bytes packet) {
  FieldReader in(packet);
  const auto type = in.number<std::uint32_t>("a type");
  Answer answer;
  if (type == welcome) {
    answer = Welcome{in.number<std::uint32_t>("a version")};
  } else if (type == refused) {
    const auto request = in.number<std::uint32_t>("a request");
    const auto reason = in.number<std::uint32_t>("a reason");
    if (reason == 0 || reason > static_cast<std::uint32_t>(Reason::failed))
      violated("reason " + std::to_string(reason));
    answer = Refused{request, static_cast<Reason>(reason), in.text(longest_reason, "a reason")};
  } else if (type == names) {
    const auto request = read_request(in);
    auto [more, all] = read_list<ipc::Listing>(in, &read_listing);
    answer = Names{request, more, std::move(all)};
  } else if (type == got_tensor) {
    const auto request = read_request(in);
    answer = GotTensor{request, read_listing(in)};
  } else if (type == guests) {
    const auto request = read_request(in);
    auto [more, all] = read_list<ipc::Guest>(in, &read_guest);
    answer = Guests{request, more, std::move(all)};
  } else if (type == news) {
    answer = read_news(in);
  } else {
    violated("a message of type " + std::to_string(type));
  }
  in.end();
  return answer;
}

}  // namespace weir::detail::names
