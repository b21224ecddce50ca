// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ipc/file_pairs.hpp"
#include "ipc/hold/connection.hpp"
#include "ipc/hold/held_memory.hpp"
#include "ipc/hold/reading.hpp"
#include "ipc/hold/records.hpp"
#include "ipc/hold/runs.hpp"
#include "ipc/peer.hpp"
#include "ipc/turns.hpp"
#include "weir/error.hpp"
#include "weir/held_set.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::ipc {
namespace {

using namespace detail::hold;
using detail::channel::Deadline;
using Arrived = Reading<spi::StrangerFd, HeldMemory>::Arrived;

// Whoever asks again and again for a moment has to get a new connection, and a set over it, at some time.
constexpr std::chrono::milliseconds shortest_repetition{100};
// So many packets are taken after the time limit if they are there. A holder may send ever more.
constexpr int most_late = 64;

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
  State(const std::string& at, const std::string& set, const HoldOptions& opts) : path(at), name(set), options(opts) {
    std::tie(connection, listener) = connect(Deadline(endless));
  }

  const std::string path, name;
  const HoldOptions options;
  detail::Turns turns{"SetReader"};
  std::unique_ptr<Connection> connection;
  std::optional<detail::Listener> listener;  // at which it was made, if that is known
  Reading<spi::StrangerFd, HeldMemory> reading;
  bool interrupted = false;   // the last call ended for want of time
  std::exception_ptr broken;  // why the connection is of no use any more

  [[nodiscard]] std::pair<std::unique_ptr<Connection>, std::optional<detail::Listener>> connect(
      const Deadline& deadline) const {
    const auto before = detail::listener_at(path);
    auto made = std::make_unique<Connection>(path, name, Role::reader, options, deadline);
    const bool stayed = before == detail::listener_at(path);
    return {std::move(made), stayed ? before : std::nullopt};
  }

  /// As `next`. After a call that ended for want of time, nobody takes the set that may come, and the holder has
  /// patience for a while. If it hung up, it is asked once more, and gets some time to answer.
  Arrived resume(std::uint64_t newer_than, const Deadline& deadline) {
    std::exception_ptr gone;
    const bool before = std::exchange(interrupted, false);
    try {
      return next(newer_than, deadline);
    } catch (const Error& error) {
      if (error.code() != Errc::peer_gone || !before) throw;
      gone = std::current_exception();
    }
    interrupted = true;  // until there is another connection
    const Deadline soonest(shortest_repetition);
    const Deadline& last = deadline.endless() || deadline.at() > soonest.at() ? deadline : soonest;
    auto [again, there] = connect(last);
    if (!listener || there != listener) std::rethrow_exception(gone);  // it may be another holder
    connection = std::move(again);
    reading = {};
    interrupted = false;
    return next(newer_than, last);
  }

  Arrived next(std::uint64_t newer_than, const Deadline& deadline) {
    if (const auto question = reading.ask(newer_than)) {
      try {
        connection->send(encode(*question), {}, deadline);
      } catch (...) {
        reading.unasked();
        throw;
      }
    }
    std::vector<spi::StrangerFd> files;
    for (int late = 0;;) {
      const Bytes packet = connection->receive(files, deadline);
      auto arrived = reading.receive(packet, std::move(files));
      files.clear();
      if (arrived) return std::move(*arrived);
      if (deadline.over() && ++late == most_late)
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
    set = state_->resume(newer_than, deadline);
  } catch (const Error& error) {
    if (error.code() == Errc::timed_out)
      state_->interrupted = true;
    else
      state_->broken = std::current_exception();
    throw;
  } catch (...) {  // what had come is lost
    state_->broken = std::current_exception();
    throw;
  }
  return open_set(std::move(*set), stream, state_->connection->socket());
}

}  // namespace weir::ipc
