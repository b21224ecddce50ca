// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "ipc/file_pairs.hpp"
#include "ipc/hold/connection.hpp"
#include "ipc/hold/held_memory.hpp"
#include "ipc/hold/reading.hpp"
#include "ipc/hold/records.hpp"
#include "ipc/hold/runs.hpp"
#include "ipc/turns.hpp"
#include "weir/error.hpp"
#include "weir/held_set.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::ipc {
namespace {

using namespace detail::hold;
using detail::channel::Deadline;
using Arrived = Reading<spi::StrangerFd, HeldMemory>::Arrived;

Tensor tensor_of(Record& record, Runs& memory) {
  Buffer part = memory.part(record);
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
  Runs memory(set.segments, std::move(lease), stream, holder);
  std::vector<Record> records;
  for (const Packet& packet : set.tensors) {
    const Message message = detail::hold::decode(packet);
    read_records(std::get<detail::hold::Tensors>(message), [&](Record&& record) {
      memory.connect(record);
      records.push_back(std::move(record));
    });
  }
  for (Record& record : records) {
    Tensor tensor = tensor_of(record, memory);
    const auto hint = made.tensors.end();  // writers sort them by name
    const std::size_t before = made.tensors.size();
    made.tensors.emplace_hint(hint, std::string(record.name), std::move(tensor));
    if (made.tensors.size() == before) violated("two tensors '" + std::string(record.name) + "'");
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
