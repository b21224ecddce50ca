// SPDX-License-Identifier: Apache-2.0
// What is said about names, as bytes.
#include <utility>

#include "ipc/names/messages.hpp"
#include "ipc/names/packet.hpp"
#include "ipc/names/types.hpp"
#include "ipc/text.hpp"

namespace weir::detail::names {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // which older compilers do not find by themselves

FieldWriter begin(Packet& packet, Type type) {
  FieldWriter out(packet);
  out.number(static_cast<std::uint32_t>(type));
  return out;
}

void write(FieldWriter& out, const ipc::Listing& tensor) {
  const Layout& layout = tensor.layout;
  out.number(tensor.version);
  out.number(std::uint64_t{tensor.bytes});
  out.number(std::uint64_t{layout.byte_offset});
  out.number(layout.dtype.code);
  out.number(layout.dtype.bits);
  out.number(layout.dtype.lanes);
  out.number(static_cast<std::uint32_t>(layout.shape.size()));
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    out.number(layout.shape[i]);
    out.number(layout.strides[i]);
  }
  out.text(tensor.name);
  out.text(tensor.where);
}

void write(FieldWriter& out, const ipc::Guest& guest) {
  out.number(guest.number);
  out.number(guest.user);
  out.number(static_cast<std::uint16_t>((guest.connected ? 1 : 0) | (guest.subscribed ? 2 : 0)));
  out.number(static_cast<std::uint16_t>(guest.loans.size()));
  for (const ipc::Loan& loan : guest.loans) {
    out.number(loan.version);
    out.number(std::uint64_t{loan.count});
    out.number(std::uint64_t{loan.bytes});
    out.text(loan.name);
  }
}

template <class Item>
void write_list(FieldWriter& out, bool more, const std::vector<Item>& all) {
  out.number(static_cast<std::uint16_t>(more));
  out.number(static_cast<std::uint16_t>(all.size()));
  for (const Item& item : all) write(out, item);
}

}  // namespace

Packet encode(const Question& question) {
  Packet packet;
  std::visit(Overloaded{[&](const Hello& says) {
                          auto out = begin(packet, hello);
                          out.number(says.version);
                          out.text(says.pattern);
                        },
                        [&](const ListNames& asks) {
                          auto out = begin(packet, list_names);
                          out.number(asks.request);
                          out.text(asks.pattern);
                          out.text(asks.after);
                        },
                        [&](const GetTensor& asks) {
                          auto out = begin(packet, get_tensor);
                          out.number(asks.request);
                          out.text(asks.name);
                        },
                        [&](const ListGuests& asks) {
                          auto out = begin(packet, list_guests);
                          out.number(asks.request);
                          out.number(asks.after);
                          out.number(asks.after_version);
                        }},
             question);
  return packet;
}

Packet encode(const Answer& answer) {
  Packet packet;
  std::visit(Overloaded{[&](const Welcome& says) { begin(packet, welcome).number(says.version); },
                        [&](const Refused& says) {
                          auto out = begin(packet, refused);
                          out.number(says.request);
                          out.number(static_cast<std::uint32_t>(says.reason));
                          out.text(to_text(says.text, longest_reason));
                        },
                        [&](const Names& says) {
                          auto out = begin(packet, names);
                          out.number(says.request);
                          write_list(out, says.more, says.all);
                        },
                        [&](const GotTensor& says) {
                          auto out = begin(packet, got_tensor);
                          out.number(says.request);
                          write(out, says.tensor);
                        },
                        [&](const Guests& says) {
                          auto out = begin(packet, guests);
                          out.number(says.request);
                          write_list(out, says.more, says.all);
                        },
                        [&](const ipc::News& says) {
                          auto out = begin(packet, news);
                          out.number(static_cast<std::uint32_t>(says.change) + 1);
                          if (says.change == ipc::Change::published) return write(out, says.tensor);
                          out.number(says.tensor.version);
                          if (says.change == ipc::Change::withdrawn) out.text(says.tensor.name);
                        }},
             answer);
  return packet;
}

}  // namespace weir::detail::names
