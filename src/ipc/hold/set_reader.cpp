// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ipc/file_pairs.hpp"
#include "ipc/hold/connection.hpp"
#include "ipc/hold/held_memory.hpp"
#include "ipc/hold/reading.hpp"
#include "ipc/hold/records.hpp"
#include "ipc/turns.hpp"
#include "memory/adopted.hpp"
#include "weir/error.hpp"
#include "weir/held_set.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::ipc {
namespace {

using namespace detail::hold;
using detail::channel::Deadline;
using Arrived = Reading<spi::StrangerFd, HeldMemory>::Arrived;

/// Return a segment with the memory of all of these, or nothing if the device makes none.
spi::Ref<spi::Segment> join(const std::vector<spi::Segment*>& parts) {
  spi::DeviceState& device = *parts.front()->device;
  const auto made_by = device.backend->segments->join;
  const auto same = [&](const spi::Segment* part) { return part->device == &device; };
  return made_by && std::ranges::all_of(parts, same) ? spi::Ref<spi::Segment>::adopt(made_by(device, parts))
                                                     : spi::Ref<spi::Segment>();
}

/// Buffers over the whole segments of a set, made when the first tensor needs them.
class Segments {
 public:
  Segments(const Arrived& set, SetLease lease, const Stream& stream, int holder)
      : set_(set), lease_(std::move(lease)), stream_(stream), holder_(holder), whole_(set.segments.size()) {}

  [[nodiscard]] Buffer part(const Record& record) {
    if (record.size == 0) return detail::adopt_nothing(stream_.state().device(), stream_);
    if (record.segment >= whole_.size())
      violated("segment " + std::to_string(record.segment) + " of " + std::to_string(whole_.size()));
    const Buffer& first = open(record.segment);
    if (record.offset > first.size()) refuse(record);
    const Buffer& whole = record.size <= first.size() - record.offset ? first : joined(record);
    return whole.slice(record.offset, record.size);
  }

 private:
  [[noreturn]] void refuse(const Record& record) {
    violated(std::to_string(record.size) + " bytes at offset " + std::to_string(record.offset) + " of a segment of " +
             std::to_string(open(record.segment).size()));
  }
  const Buffer& open(std::size_t number) {
    auto& whole = whole_[number];
    if (!whole) {
      auto& memory = *set_.segments[number];
      whole = hold_buffer(memory.open(stream_.state().device(), holder_), stream_, lease_);
    }
    return *whole;
  }
  // The tensor goes on in the segments that follow.
  const Buffer& joined(const Record& record) {
    std::vector<spi::Segment*> parts;
    std::size_t bytes = 0, last = record.segment;
    for (;; ++last) {
      if (last == whole_.size()) refuse(record);
      const Buffer& part = open(last);
      parts.push_back(part.location().segment);
      bytes += part.size();
      if (record.size <= bytes - record.offset) break;
    }
    auto& made = joined_[{record.segment, last}];
    if (!made) {
      auto segment = join(parts);
      if (!segment) refuse(record);
      made = hold_buffer(std::move(segment), stream_, lease_);
    }
    return *made;
  }

  const Arrived& set_;
  const SetLease lease_;
  const Stream& stream_;
  const int holder_;
  std::vector<std::optional<Buffer>> whole_;
  std::map<std::pair<std::size_t, std::size_t>, std::optional<Buffer>> joined_;  // by the first and the last segment
};

Tensor tensor_of(Record& record, Segments& segments) {
  Buffer part = segments.part(record);
  try {
    return {std::move(part), std::move(record.layout)};
  } catch (const Error& error) {
    if (error.code() != Errc::invalid_argument) throw;
    violated("tensor '" + std::string(record.name) + "': " + error.what());
  }
}

HeldSet open_set(Arrived set, const Stream& stream, int holder) {
  SetLease lease;
  if (set.lease) {
    detail::check_write_end(set.lease->get(), "lease");
    lease = std::make_shared<spi::StrangerFd>(std::move(*set.lease));
  }
  HeldSet made;
  made.epoch = set.epoch;
  Segments segments(set, std::move(lease), stream, holder);
  for (const Packet& packet : set.tensors) {
    const Message message = detail::hold::decode(packet);
    read_records(std::get<detail::hold::Tensors>(message), [&](Record&& record) {
      Tensor tensor = tensor_of(record, segments);
      const auto hint = made.tensors.end();  // writers sort them by name
      const std::size_t before = made.tensors.size();
      made.tensors.emplace_hint(hint, std::string(record.name), std::move(tensor));
      if (made.tensors.size() == before) violated("two tensors '" + std::string(record.name) + "'");
    });
  }
  return made;
}

}  // namespace

struct SetReader::State {
  State(const std::string& path, const std::string& name, const HoldOptions& options)
      : connection(path, name, Role::reader, options, Deadline(endless)) {}

  detail::Turns turns{"SetReader"};
  Connection connection;
  Reading<spi::StrangerFd, HeldMemory> reading;
  std::exception_ptr broken;  // why the connection is of no use any more

  Arrived next(std::uint64_t newer_than, const Deadline& deadline) {
    if (const auto question = reading.ask(newer_than)) {
      try {
        connection.send(encode(*question), {}, deadline);
      } catch (...) {
        reading.unasked();
        throw;
      }
    }
    std::vector<spi::StrangerFd> files;
    for (;;) {
      const Bytes packet = connection.receive(files, deadline);
      auto arrived = reading.receive(packet, std::move(files));
      files.clear();
      if (arrived) return std::move(*arrived);
      if (deadline.over())
        throw Error(Errc::timed_out, "SetReader::open: the holder did not send all of the set in time");
    }
  }
};

SetReader::SetReader(std::string path, std::string name, const HoldOptions& options) {
  check_name("SetReader", name);
  state_ = std::make_unique<State>(path, name, options);
}

SetReader::SetReader(SetReader&&) noexcept = default;

SetReader& SetReader::operator=(SetReader&& other) noexcept {
  SetReader ended(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

SetReader::~SetReader() {
  if (state_ && state_->turns.abandoned()) (void)state_.release();
}

HeldSet SetReader::open(const Stream& stream, std::chrono::milliseconds timeout, std::uint64_t newer_than) {
  (void)stream.state();
  const Deadline deadline(timeout);
  const detail::Turns::Turn turn(state_->turns, deadline, "SetReader::open: another thread waits for a set");
  if (state_->broken) std::rethrow_exception(state_->broken);
  std::optional<Arrived> set;
  try {
    set = state_->next(newer_than, deadline);
  } catch (const Error& error) {
    if (error.code() != Errc::timed_out) state_->broken = std::current_exception();
    throw;
  } catch (...) {  // what had come is lost
    state_->broken = std::current_exception();
    throw;
  }
  return open_set(std::move(*set), stream, state_->connection.socket());
}

}  // namespace weir::ipc
