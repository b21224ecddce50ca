// SPDX-License-Identifier: Apache-2.0
#include "ipc/hold/messages.hpp"

#include <algorithm>
#include <cstring>

#include "ipc/bytes.hpp"
#include "ipc/text.hpp"
#include "weir/error.hpp"

namespace weir::detail::hold {
namespace {

// A message begins with its type, two bytes of zero, and a number of 32 bits.
constexpr std::size_t head = 8;
constexpr char magic[] = {'w', 'e', 'i', 'r', 'h', 'o', 'l', 'd'};

enum Type : std::uint16_t {
  hello = 1,
  welcome = 2,
  refused = 3,
  segments = 4,
  tensors = 5,
  commit = 6,
  committed = 7,
  remove = 8,
  open = 9,
  set = 10,
};

constexpr std::size_t hello_size = 24;  // and the name behind it
constexpr std::size_t pair_size = 16;   // two numbers
constexpr std::size_t set_size = 32;
constexpr std::size_t entry_size = 4;
constexpr std::size_t smallest_record = 48;  // of a tensor without dimensions, whose name has a byte

Packet begin(Type type, std::uint32_t number, std::size_t size) {
  Packet packet(size);
  put(packet, 0, static_cast<std::uint16_t>(type));
  put(packet, 4, number);
  return packet;
}

void expect(Bytes packet, std::size_t size, const char* what) {
  if (packet.size() != size)
    violated(std::string(what) + " has " + std::to_string(packet.size()) + " bytes, not " + std::to_string(size));
}

void expect_zero(std::uint32_t value) {
  if (value != 0) violated("a reserved field is not zero");
}

bool flag(Bytes packet, std::size_t at) {
  const auto value = get<std::uint32_t>(packet, at);
  if (value > 1) violated("a flag has the value " + std::to_string(value));
  return value == 1;
}

Hello read_hello(Bytes packet, std::uint32_t version) {
  if (packet.size() < hello_size || std::memcmp(packet.data() + 8, magic, sizeof magic) != 0)
    violated("a greeting that is not one");
  const auto role = get<std::uint32_t>(packet, 16);
  if (role != static_cast<std::uint32_t>(Role::writer) && role != static_cast<std::uint32_t>(Role::reader))
    violated("a client of sort " + std::to_string(role));
  const std::size_t name = get<std::uint32_t>(packet, 20);
  if (name == 0 || name > most_name) violated("a name of " + std::to_string(name) + " bytes");
  expect(packet, hello_size + name, "a greeting");
  const std::string_view set(reinterpret_cast<const char*>(packet.data()) + hello_size, name);
  if (!is_text(set)) violated("a set's name that is not UTF-8, or has control characters");
  return {version, static_cast<Role>(role), set};
}

Segments read_segments(Bytes packet, std::size_t count) {
  const Bytes body = packet.subspan(head);
  if (count == 0 || count > body.size() / entry_size) violated(std::to_string(count) + " segments in a packet");
  const Segments made{body.first(count * entry_size), body.subspan(count * entry_size)};
  std::size_t fresh = 0;
  for (std::size_t i = 0; i < count; ++i) fresh += made[i] == Segments::fresh ? 1U : 0U;
  if (fresh > most_files) violated(std::to_string(fresh) + " new segments in a packet");
  expect(packet, head + count * entry_size + fresh * wire_size, "a list of segments");
  return made;
}

}  // namespace

void violated(const std::string& how) {
  throw Error(Errc::corrupt_descriptor, "held set: the other end broke the protocol: " + how);
}

std::uint32_t Segments::operator[](std::size_t i) const noexcept { return get<std::uint32_t>(entries, i * entry_size); }

Packet encode(const Hello& message) {
  Packet packet = begin(hello, message.version, hello_size + message.set.size());
  std::memcpy(packet.data() + 8, magic, sizeof magic);
  put(packet, 16, static_cast<std::uint32_t>(message.role));
  put(packet, 20, static_cast<std::uint32_t>(message.set.size()));
  std::memcpy(packet.data() + hello_size, message.set.data(), message.set.size());
  return packet;
}

Packet encode(const Welcome& message) { return begin(welcome, message.version, head); }

Packet encode(const Refused& message) {
  Packet packet = begin(refused, static_cast<std::uint32_t>(message.why), pair_size);
  put(packet, 8, message.limit);
  return packet;
}

Packet encode(const Commit& message) {
  Packet packet = begin(commit, message.tensors, pair_size);
  put(packet, 8, message.segments);
  put(packet, 12, message.lease ? std::uint32_t{1} : std::uint32_t{0});
  return packet;
}

Packet encode(const Committed& message) {
  Packet packet = begin(committed, 0, pair_size);
  put(packet, 8, message.epoch);
  return packet;
}

Packet encode(const Remove&) { return begin(remove, 0, head); }

Packet encode(const Open& message) {
  Packet packet = begin(open, message.request, pair_size);
  put(packet, 8, message.newer_than);
  return packet;
}

Packet encode(const Set& message) {
  Packet packet = begin(set, message.request, set_size);
  put(packet, 8, message.epoch);
  put(packet, 16, message.segments);
  put(packet, 20, message.tensors);
  put(packet, 24, message.lease ? std::uint32_t{1} : std::uint32_t{0});
  return packet;
}

Packet encode_segments(std::span<const std::uint32_t> entries, std::span<const Bytes> descriptors) {
  const std::size_t first = head + entries.size() * entry_size;
  Packet packet = begin(segments, static_cast<std::uint32_t>(entries.size()), first + descriptors.size() * wire_size);
  for (std::size_t i = 0; i < entries.size(); ++i) put(packet, head + i * entry_size, entries[i]);
  for (std::size_t i = 0; i < descriptors.size(); ++i)
    std::memcpy(packet.data() + first + i * wire_size, descriptors[i].data(), wire_size);
  return packet;
}

bool has_room(std::size_t entries, std::size_t fresh) noexcept {
  return fresh < most_files && head + (entries + 1) * entry_size + (fresh + 1) * wire_size <= largest_packet;
}

Message decode(Bytes packet) {
  if (packet.size() < head || packet.size() > largest_packet)
    violated("a packet of " + std::to_string(packet.size()) + " bytes");
  const auto type = get<std::uint16_t>(packet, 0);
  expect_zero(get<std::uint16_t>(packet, 2));
  const auto number = get<std::uint32_t>(packet, 4);
  switch (type) {
    case hello: return read_hello(packet, number);
    case welcome: expect(packet, head, "a welcome"); return Welcome{number};
    case refused:
      expect(packet, pair_size, "a refusal");
      if (number == 0 || number > static_cast<std::uint32_t>(Why::no_more_files))
        violated("a refusal for reason " + std::to_string(number));
      return Refused{static_cast<Why>(number), get<std::uint64_t>(packet, 8)};
    case segments: return read_segments(packet, number);
    case tensors:
      if (number == 0) violated("a packet of no tensors");
      if (number > (packet.size() - head) / smallest_record)
        violated(std::to_string(number) + " tensors in a packet of " + std::to_string(packet.size()) + " bytes");
      return Tensors{number, packet.subspan(head)};
    case commit:
      expect(packet, pair_size, "a commit");
      return Commit{number, get<std::uint32_t>(packet, 8), flag(packet, 12)};
    case committed:
      expect(packet, pair_size, "an answer");
      expect_zero(number);
      return Committed{get<std::uint64_t>(packet, 8)};
    case remove:
      expect(packet, head, "a removal");
      expect_zero(number);
      return Remove{};
    case open: expect(packet, pair_size, "a question"); return Open{number, get<std::uint64_t>(packet, 8)};
    case set:
      expect(packet, set_size, "a set");
      expect_zero(get<std::uint32_t>(packet, 28));
      return Set{number, get<std::uint64_t>(packet, 8), get<std::uint32_t>(packet, 16), get<std::uint32_t>(packet, 20),
                 flag(packet, 24)};
    default: violated("a message of type " + std::to_string(type));
  }
}

std::size_t files_of(const Message& message) noexcept {
  if (const auto* const some = std::get_if<Segments>(&message)) return some->files();
  if (const auto* const done = std::get_if<Commit>(&message)) return done->lease ? 1 : 0;
  if (const auto* const one = std::get_if<Set>(&message)) return one->lease ? 1 : 0;
  return 0;
}

}  // namespace weir::detail::hold
