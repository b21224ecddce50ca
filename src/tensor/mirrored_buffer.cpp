// SPDX-License-Identifier: Apache-2.0
#include "weir/mirrored_buffer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.hpp"
#include "weir/error.hpp"

namespace weir {
namespace {

std::vector<ResourcePtr> plain_resources(std::span<const Stream> streams) {
  std::vector<ResourcePtr> resources;
  for (const Stream& stream : streams) resources.push_back(make_resource(stream.device()));
  return resources;
}

[[noreturn]] void refuse_closed(const char* operation) {
  throw Error(Errc::closed, std::string("MirroredBuffer") + operation + ": the buffer is closed");
}

}  // namespace

MirroredBuffer::MirroredBuffer(std::size_t bytes, std::vector<Stream> streams)
    : MirroredBuffer(bytes, streams, plain_resources(streams)) {}

MirroredBuffer::MirroredBuffer(std::size_t bytes, std::vector<Stream> streams, std::span<const ResourcePtr> resources)
    : bytes_(bytes), streams_(std::move(streams)) {
  if (streams_.empty()) detail::refuse("MirroredBuffer", "there is no stream");
  if (resources.size() != streams_.size())
    detail::refuse("MirroredBuffer",
                   std::to_string(resources.size()) + " resources for " + std::to_string(streams_.size()) + " streams");
  if (std::ranges::find(resources, nullptr) != resources.end()) detail::refuse("MirroredBuffer", "a resource is null");
  copies_.reserve(streams_.size());
  for (std::size_t i = 0; i < streams_.size(); ++i) copies_.push_back(resources[i]->allocate(bytes, streams_[i]));
}

const Stream& MirroredBuffer::stream(std::size_t index) const {
  check_index("::stream", index);
  return streams_[index];
}

const Buffer& MirroredBuffer::copy(std::size_t index) const {
  check_index("::copy", index);
  return copies_[index];
}

Buffer& MirroredBuffer::copy(std::size_t index) {
  check_index("::copy", index);
  return copies_[index];
}

std::size_t MirroredBuffer::any() {
  check_all_open("::any");
  const std::size_t count = streams_.size();
  std::size_t chosen = next_ % count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t candidate = (next_ + i) % count;
    if (!streams_[candidate].done()) continue;
    chosen = candidate;
    break;
  }
  next_ = chosen + 1;
  return chosen;
}

void MirroredBuffer::write(std::span<const std::byte> bytes) {
  check_all_open("::write");
  check_size("::write", bytes.size(), bytes_);
  for (std::size_t i = 0; i < copies_.size(); ++i) copies_[i].copy_from(bytes, streams_[i]);
}

void MirroredBuffer::write(std::span<const std::byte> bytes, std::size_t index) {
  check_open("::write", index);
  check_size("::write", bytes.size(), bytes_);
  copies_[index].copy_from(bytes, streams_[index]);
}

void MirroredBuffer::read(std::span<std::byte> bytes, std::size_t index) const {
  check_open("::read", index);
  check_size("::read", bytes.size(), bytes_);
  copies_[index].copy_to(bytes, streams_[index]);
}

void MirroredBuffer::read_all(std::span<std::byte> bytes) const {
  check_all_open("::read_all");
  check_size("::read_all", bytes.size(), bytes_ * copies_.size());
  for (std::size_t i = 0; i < copies_.size(); ++i) copies_[i].copy_to(bytes.subspan(i * bytes_, bytes_), streams_[i]);
}

void MirroredBuffer::broadcast(std::size_t index) {
  check_all_open("::broadcast");
  check_index("::broadcast", index);
  const Event written = streams_[index].record();
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (i == index) continue;
    streams_[i].wait(written);
    copies_[i].copy_from(copies_[index], streams_[i]);
    streams_[index].wait(streams_[i].record());
  }
}

void MirroredBuffer::synchronize() const {
  if (std::ranges::all_of(copies_, &Buffer::is_closed)) refuse_closed("::synchronize");
  for (const Stream& stream : streams_) stream.synchronize();
}

void MirroredBuffer::close() noexcept {
  for (Buffer& copy : copies_) copy.close();
}

// There are no copies after a move.
void MirroredBuffer::check_index(const char* operation, std::size_t index) const {
  if (index < copies_.size()) return;
  if (copies_.empty()) refuse_closed(operation);
  detail::refuse(std::string("MirroredBuffer") + operation,
                 "there is no copy " + std::to_string(index) + "; there are " + std::to_string(copies_.size()));
}

void MirroredBuffer::check_open(const char* operation, std::size_t index) const {
  if (std::ranges::all_of(copies_, &Buffer::is_closed)) refuse_closed(operation);
  check_index(operation, index);
  if (copies_[index].is_closed()) refuse_closed(operation);
}

void MirroredBuffer::check_all_open(const char* operation) const {
  if (copies_.empty() || std::ranges::any_of(copies_, &Buffer::is_closed)) refuse_closed(operation);
}

void MirroredBuffer::check_size(const char* operation, std::size_t given, std::size_t expected) const {
  if (given == expected) return;
  detail::refuse(std::string("MirroredBuffer") + operation,
                 std::to_string(given) + " bytes were given, " + std::to_string(expected) + " are needed");
}

}  // namespace weir
