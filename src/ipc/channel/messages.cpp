// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/messages.hpp"

#include <algorithm>
#include <cstring>

#include "ipc/bytes.hpp"
#include "weir/error.hpp"

namespace weir::detail::channel {
namespace {

// A message begins with its type and its size in units, each of 16 bits, and ends at a whole unit.
constexpr std::size_t unit = 8;
constexpr std::size_t head = 4;

enum Type : std::uint16_t { hello = 1, segment = 2, page = 3, grant = 4, releases = 5, credit = 6, retire = 7, bye = 8 };

constexpr std::size_t hello_size = 8;
constexpr std::size_t segment_size = 4;  // and the descriptor behind it
constexpr std::size_t empty_size = 4;  // reserved
constexpr std::size_t grant_size = 44;  // and the payload behind it
constexpr std::size_t number_size = 4;
constexpr std::size_t release_size = 8;

constexpr std::size_t whole(std::size_t body) { return (head + body + unit - 1) / unit * unit; }

using Bytes = std::span<const std::byte>;

// Return the body of a message, which must have `wanted` bytes, but for zeros up to the whole unit.
Bytes exactly(Bytes body, std::size_t wanted, const char* what) {
  if (whole(wanted) - head != body.size())
    violated(std::string(what) + " has " + std::to_string(body.size()) + " bytes, not " + std::to_string(wanted));
  if (std::ranges::any_of(body.subspan(wanted), [](std::byte b) { return b != std::byte{0}; }))
    violated(std::string(what) + " has bytes behind its end");
  return body.first(wanted);
}

void check_empty(Bytes body, const char* what) {
  if (get<std::uint32_t>(exactly(body, empty_size, what), 0) != 0) violated("a reserved field is not zero");
}

Grant read_grant(Bytes body) {
  if (body.size() < grant_size) violated("a grant has " + std::to_string(body.size()) + " bytes");
  const auto payload = get<std::uint16_t>(body, 32);
  if (payload > most_payload) violated("a payload of " + std::to_string(payload) + " bytes");
  body = exactly(body, grant_size + payload, "a grant");
  const PagePoint ready{get<std::uint32_t>(body, 28), get<std::uint64_t>(body, 36)};
  if (ready.word >= page_words) violated("word " + std::to_string(ready.word) + " of a page");
  if (ready.value >= page_values) violated("a point that no page can hold");
  if (ready.value == 0 && ready.word != 0) violated("a word without a value");
  if (get<std::uint16_t>(body, 34) != 0) violated("a reserved field is not zero");
  return {get<std::uint64_t>(body, 4),  get<std::uint32_t>(body, 0), get<std::uint64_t>(body, 12),
          get<std::uint64_t>(body, 20), ready,                       body.subspan(grant_size, payload)};
}

Releases read_releases(Bytes body) {
  if (body.size() < number_size) violated("a release has " + std::to_string(body.size()) + " bytes");
  const std::size_t count = get<std::uint32_t>(body, 0);
  if (count == 0 || count > body.size() / release_size) violated("a release of " + std::to_string(count) + " numbers");
  return {exactly(body, number_size + count * release_size, "a release").subspan(number_size)};
}

}  // namespace

void violated(const std::string& how) {
  throw Error(Errc::corrupt_descriptor, "ipc::Channel: the peer broke the protocol: " + how);
}

std::uint64_t Releases::operator[](std::size_t i) const noexcept {
  return get<std::uint64_t>(numbers, i * release_size);
}

std::span<std::byte> PacketWriter::begin(std::uint16_t type, std::size_t body, std::size_t files, std::size_t most) {
  const std::size_t size = whole(body), at = bytes_.size();
  if (size > room(most) || files > most_files - files_) return {};
  bytes_.resize(at + size);
  files_ += files;
  const std::span<std::byte> made(bytes_.data() + at, size);
  put(made, 0, type);
  put(made, 2, static_cast<std::uint16_t>(size / unit));
  return made.subspan(head);
}

bool PacketWriter::has_room(std::size_t payload, std::size_t parts) const noexcept {
  const std::size_t descriptor = wire_size + (parts > 1 ? parts * wire_part_size : 0);
  const std::size_t most = whole(segment_size + descriptor) + whole(empty_size) + whole(grant_size + payload);
  return most <= room(bytes_.empty() ? largest_packet : most_) && most_files - files_ >= parts + 1;
}

void PacketWriter::clear() noexcept {
  bytes_.clear();
  files_ = 0;
}

bool PacketWriter::add(const Hello& message) {
  const auto body = begin(hello, hello_size);
  if (body.empty()) return false;
  put(body, 0, message.version);
  put(body, 4, message.window);
  return true;
}

bool PacketWriter::add(const Segment& message) {
  const auto body = begin_of_buffer(segment, segment_size + message.descriptor.size(), message.files());
  if (body.empty()) return false;
  put(body, 0, message.number);
  std::ranges::copy(message.descriptor, body.begin() + segment_size);
  return true;
}

bool PacketWriter::add(const Page&) { return !begin_of_buffer(page, empty_size, 1).empty(); }
bool PacketWriter::add(const Bye&) { return !begin(bye, empty_size).empty(); }

bool PacketWriter::add(const Grant& message) {
  const auto body = begin_of_buffer(grant, grant_size + message.payload.size());
  if (body.empty()) return false;
  put(body, 0, message.segment);
  put(body, 4, message.number);
  put(body, 12, message.offset);
  put(body, 20, message.size);
  put(body, 28, message.ready.word);
  put(body, 32, static_cast<std::uint16_t>(message.payload.size()));
  put(body, 36, message.ready.value);
  std::ranges::copy(message.payload, body.begin() + grant_size);
  return true;
}

bool PacketWriter::add(std::span<const std::uint64_t>& numbers) {
  const std::size_t left = room(most_);
  if (numbers.empty() || left < whole(number_size + release_size)) return false;
  const std::size_t count = std::min(numbers.size(), (left - head - number_size) / release_size);
  const auto body = begin(releases, number_size + count * release_size);
  put(body, 0, static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) put(body, number_size + i * release_size, numbers[i]);
  numbers = numbers.subspan(count);
  return true;
}

bool PacketWriter::add(const Credit& message) {
  const auto body = begin(credit, number_size);
  if (body.empty()) return false;
  put(body, 0, message.buffers);
  return true;
}

bool PacketWriter::add(const Retire& message) {
  const auto body = begin(retire, number_size);
  if (body.empty()) return false;
  put(body, 0, message.segment);
  return true;
}

std::optional<Message> PacketReader::next() {
  if (rest_.empty()) {
    if (files_ != 0 && counted_) violated(std::to_string(files_) + " files came with no message that needs them");
    return std::nullopt;
  }
  if (rest_.size() < unit) violated("a message of " + std::to_string(rest_.size()) + " bytes");
  const auto type = get<std::uint16_t>(rest_, 0);
  const std::size_t size = get<std::uint16_t>(rest_, 2) * unit;
  if (size == 0 || size > rest_.size()) violated("a message of " + std::to_string(size) + " bytes");
  const Bytes body = rest_.subspan(head, size - head);
  rest_ = rest_.subspan(size);
  const auto take_files = [this](std::size_t count) {
    if (count > files_) violated("a file is missing");
    files_ -= count;
  };
  switch (type) {
    case hello: {
      const Bytes fields = exactly(body, hello_size, "a greeting");
      return Hello{get<std::uint32_t>(fields, 0), get<std::uint32_t>(fields, 4)};
    }
    case segment: {
      if (body.size() < segment_size + wire_size || body.size() > segment_size + most_wire_size)
        violated("a segment has " + std::to_string(body.size()) + " bytes");
      const Segment made{get<std::uint32_t>(body, 0), body.subspan(segment_size)};
      take_files(made.files());
      return made;
    }
    case page:
      check_empty(body, "a page");
      take_files(1);
      return Page{};
    case bye: check_empty(body, "a farewell"); return Bye{};
    case grant: return read_grant(body);
    case releases: return read_releases(body);
    case credit: return Credit{get<std::uint32_t>(exactly(body, number_size, "a credit"), 0)};
    case retire: return Retire{get<std::uint32_t>(exactly(body, number_size, "a retirement"), 0)};
    default: violated("a message of type " + std::to_string(type));
  }
}

}  // namespace weir::detail::channel
