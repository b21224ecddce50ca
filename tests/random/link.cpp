// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"

#include <sys/socket.h>

#include <utility>
#include <vector>

#include "bytes.hpp"
#include "spawn.hpp"

namespace weir::test::random {
namespace {

/// What comes for a later line.
bool is_luggage(const std::string& line) { return line.starts_with("parcel ") || line.starts_with("socket "); }

}  // namespace

void Link::say(const std::string& line) {
  try {
    write_line(socket_, line);
  } catch (const std::exception&) {  // it is gone, and may have said why before
    await_failure();
    throw PeerFailed("the other process ended");
  }
}

void Link::send(std::uint64_t parcel, const ipc::Descriptor& descriptor) {
  say("parcel " + std::to_string(parcel));
  ipc::send(socket_, descriptor);
}

void Link::send_socket(std::uint64_t channel, spi::UniqueFd socket) {
  say("socket " + std::to_string(channel));
  std::vector<spi::UniqueFd> files;
  files.push_back(std::move(socket));
  ipc::send(socket_, ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
}

std::string Link::next() {
  std::string line = read();
  if (line.empty()) throw PeerFailed("the other process ended");
  return line;
}

std::string Link::read() {
  std::string line = read_line(socket_);
  if (line.starts_with("failed ")) throw PeerFailed(line.substr(7));
  if (line.starts_with("parcel ")) {
    parcels_.emplace(std::stoull(line.substr(7)), ipc::receive(socket_, std::chrono::seconds{30}));
  }
  if (line.starts_with("socket ")) {
    sockets_.emplace(std::stoull(line.substr(7)), ipc::receive(socket_, std::chrono::seconds{30}));
  }
  return line;
}

ipc::Descriptor Link::receive(std::uint64_t parcel) {
  while (parcels_.count(parcel) == 0) {
    const std::string line = next();
    if (!is_luggage(line)) throw PeerFailed("the other process said " + line + " before a parcel");
  }
  auto found = parcels_.extract(parcel);
  return std::move(found.mapped());
}

spi::UniqueFd Link::receive_socket(std::uint64_t channel) {
  while (sockets_.count(channel) == 0) {
    const std::string line = next();
    if (!is_luggage(line)) throw PeerFailed("the other process said " + line + " before a socket");
  }
  return sockets_.extract(channel).mapped().fds().front().duplicate();
}

void Link::await_death() {
  for (;;) {
    const std::string line = read();
    if (line.empty()) return;
    if (!is_luggage(line)) throw PeerFailed("the other process said " + line + " instead of dying");
  }
}

void Link::await_failure() {
  while (!read().empty()) continue;
}

void Link::meet(std::size_t place) {
  const std::string words = "meet " + std::to_string(place);
  say(words);
  std::string line;
  do line = next();
  while (is_luggage(line));
  if (line != words) throw PeerFailed("the other process said " + line + " instead of " + words);
}

void Link::fail(const std::string& why) noexcept {
  std::string line = "failed " + why;
  for (char& letter : line) {
    if (letter == '\n') letter = ' ';
  }
  try {
    write_line(socket_, line);
  } catch (const std::exception&) {  // it ended; whoever started both sees that
  }
}

void write_text(int socket, const std::string& text) {
  write_line(socket, std::to_string(text.size()));
  for (std::size_t done = 0; done < text.size();) {
    const auto sent = ::send(socket, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the other process is gone");
    done += static_cast<std::size_t>(sent);
  }
}

std::string read_text(int socket) {
  const std::string size = read_line(socket);
  if (size.empty()) return {};
  std::string text(std::stoul(size), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const auto got = ::recv(socket, text.data() + done, text.size() - done, 0);
    if (got <= 0) return {};
    done += static_cast<std::size_t>(got);
  }
  return text;
}

}  // namespace weir::test::random
