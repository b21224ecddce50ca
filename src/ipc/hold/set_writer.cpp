// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "ipc/exporting.hpp"
#include "ipc/hold/connection.hpp"
#include "ipc/hold/records.hpp"
#include "ipc/hold/writing.hpp"
#include "ipc/leases.hpp"
#include "ipc/one_user.hpp"
#include "ipc/packets.hpp"
#include "ipc/turns.hpp"
#include "weir/error.hpp"
#include "weir/held_set.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/segment.hpp"

namespace weir::ipc {
namespace {

using namespace detail::hold;
using detail::Turns;
using detail::channel::Deadline;

constexpr char operation[] = "SetWriter::add";
constexpr char busy[] = "SetWriter: another thread is in a call";

struct Added {
  Buffer buffer;
  Layout layout;
};
using Tensors = std::map<std::string, Added, std::less<>>;

void wait_for(const Event& event, const Deadline& deadline) {
  using std::chrono::nanoseconds;
  using Clock = detail::channel::Clock;
  const auto left =
      deadline.endless() ? nanoseconds{-1} : std::max<nanoseconds>(deadline.at() - Clock::now(), nanoseconds{0});
  const WaitStatus status = event.wait(left);
  if (status == WaitStatus::timeout)
    throw Error(Errc::timed_out, "SetWriter::commit: the work on the tensors was not complete in time");
  if (status == WaitStatus::lost) event.wait();  // throws
}

/// The segments of a set, each once, and its tensors in terms of them. The pages of one resource are in the order of
/// their addresses, so that a tensor of several pages has consecutive ones.
struct Composed {
  std::vector<spi::SegmentId> ids;
  std::vector<spi::Segment*> segments;
  std::vector<Packet> tensors;
  std::vector<Buffer> pinned;  // of resources that use memory again

  explicit Composed(const Tensors& added) {
    for (const auto& [name, one] : added) {
      if (one.buffer.size() != 0) place(one.buffer);
    }
    for (auto& [where, place] : places_) {
      place.number = static_cast<std::uint32_t>(segments.size());
      segments.push_back(place.segment);
      ids.push_back(place.segment->id());
    }
    RecordWriter records;
    auto first = firsts_.begin();
    for (const auto& [name, one] : added) {
      Record record{name, Record::no_segment, 0, one.buffer.size(), one.layout};
      if (one.buffer.size() != 0) {
        record.segment = first->place->second.number;
        record.offset = first++->offset;
        if (one.buffer.memory_resource()->reuses_memory()) pinned.push_back(one.buffer.share());
      }
      records.add(record);
    }
    tensors = records.finish();
    if (segments.size() > most_segments)
      throw Error(Errc::invalid_argument, "SetWriter::commit: the tensors lie in " + std::to_string(segments.size()) +
                                              " segments; a set may have " + std::to_string(most_segments) +
                                              ": allocate them from a pool");
  }

 private:
  struct Place {
    spi::Segment* segment;
    std::uint32_t number = 0;
  };
  using Places = std::map<std::pair<spi::Segment*, std::size_t>, Place>;  // by what has the addresses, and where there
  struct First {
    Places::iterator place;
    std::size_t offset;
  };

  void place(const Buffer& buffer) {
    const auto [whole, offset] = buffer.location();
    spi::PagedSegment* const paged = whole->paged();
    if (!paged) {
      firsts_.push_back({places_.try_emplace({whole, 0}, Place{whole}).first, offset});
      return;
    }
    const auto held = paged->hold(offset, buffer.size());
    std::size_t at = offset - held.offset;
    for (const auto& page : held.pages) {
      const auto place = places_.try_emplace({whole, at}, Place{page.get()}).first;
      if (page.get() == held.pages.front().get()) firsts_.push_back({place, held.offset});
      at += page->size;
    }
  }

  Places places_;
  std::vector<First> firsts_;  // of each tensor that has memory, in their order
};

detail::WireBytes describe(spi::Segment& segment, int holder, std::vector<spi::UniqueFd>& files) {
  detail::check_one_user("SetWriter::commit", *segment.device, holder);
  auto [wire, file] = detail::describe_memory(segment, Access::read_only);
  files.push_back(std::move(file.front()));
  return detail::encode(wire);
}

}  // namespace

struct SetWriter::State {
  State(std::string at, std::string set, const HoldOptions& opts)
      : path(std::move(at)), name(std::move(set)), options(opts) {}

  const std::string path, name;
  const HoldOptions options;
  Turns turns{"SetWriter"};
  std::optional<Connection> connection;
  Writing writing;
  Tensors added;
  std::vector<Event> ready;  // of each stream of which a tensor waits, the last

  Connection& connected(const Deadline& deadline) {
    if (!connection) {
      writing.forget();
      connection.emplace(path, name, Role::writer, options, deadline);
    }
    return *connection;
  }

  /// Return the holder's answer. The connection ends with every failure, because nobody knows how far it came.
  template <class Talk>
  std::variant<Committed, Refused> talk(const Deadline& deadline, Talk talk) {
    Connection& holder = connected(deadline);
    std::vector<spi::StrangerFd> files;
    files.reserve(detail::most_sent_files);  // nothing of ours fails once the holder may have committed
    try {
      talk(holder);
      const Message answer = detail::hold::decode(holder.receive(files, deadline));
      if (const auto* const done = std::get_if<Committed>(&answer); done && files.empty()) return *done;
      if (const auto* const refused = std::get_if<Refused>(&answer); refused && files.empty()) return *refused;
      violated("another answer to a commit");
    } catch (...) {
      connection.reset();
      throw;
    }
  }

  std::variant<Committed, Refused> send(const Composed& set, const Deadline& deadline) {
    spi::StrangerFd lease;  // the holder has the pipe, too
    if (!set.pinned.empty()) {
      std::vector<Buffer> pinned;
      pinned.reserve(set.pinned.size());
      for (const Buffer& buffer : set.pinned) pinned.push_back(buffer.share());
      lease = detail::grant_lease(std::move(pinned));
    }
    return talk(deadline, [&](Connection& holder) {
      for (std::size_t at = 0; at < set.segments.size();) {
        std::vector<spi::UniqueFd> files;
        const auto described = [&](std::size_t i) { return describe(*set.segments[i], holder.socket(), files); };
        const SegmentPacket packet = writing.tell(set.ids, at, described);
        std::vector<int> numbers;
        std::ranges::transform(files, std::back_inserter(numbers), [](const auto& file) { return file.get(); });
        holder.send(packet.bytes, numbers, deadline);
      }
      for (const Packet& packet : set.tensors) holder.send(packet, {}, deadline);
      const int number = lease.get();
      const Commit commit{static_cast<std::uint32_t>(added.size()), static_cast<std::uint32_t>(set.segments.size()),
                          number >= 0};
      holder.send(encode(commit), {&number, number >= 0 ? 1U : 0U}, deadline);
    });
  }
};

SetWriter::SetWriter(std::string path, std::string name, const HoldOptions& options) {
  check_name("SetWriter", name);
  state_ = std::make_unique<State>(std::move(path), std::move(name), options);
  (void)state_->connected(Deadline(endless));
}

SetWriter::SetWriter(SetWriter&&) noexcept = default;

SetWriter& SetWriter::operator=(SetWriter&& other) noexcept {
  SetWriter ended(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

SetWriter::~SetWriter() {
  if (state_ && state_->turns.abandoned()) (void)state_.release();
}

void SetWriter::add(std::string_view name, const Tensor& tensor, const Stream& stream) {
  check_name(operation, name);
  const Buffer& buffer = tensor.buffer();
  if (tensor.layout().shape.size() > most_dimensions)
    throw Error(Errc::invalid_argument, std::string(operation) + ": a tensor of " +
                                            std::to_string(tensor.layout().shape.size()) + " dimensions; it may have " +
                                            std::to_string(most_dimensions));
  if (buffer.size() != 0) {
    if (buffer.location().segment->imported)
      throw Error(Errc::unsupported, std::string(operation) +
                                         ": memory of another process, whose owner may use it again; copy it to "
                                         "memory of this process");
    // Readers get it for reading; where the driver cannot see to that, weir does in their process.
    detail::check_shareable(operation, buffer, Access::read_write);
  }
  const Turns::Turn turn(state_->turns, Deadline(endless), busy);
  if (state_->added.contains(name))
    throw Error(Errc::invalid_argument,
                std::string(operation) + ": there is a tensor '" + std::string(name) + "' already");
  Added one{buffer.share(), tensor.layout()};
  buffer.order_after_uses(stream);
  Event now = stream.record();
  auto& ready = state_->ready;
  ready.reserve(ready.size() + 1);  // nothing throws once the tensor is in
  state_->added.emplace(std::string(name), std::move(one));
  const auto same = std::ranges::find(ready, now.timeline(), [](const Event& event) { return event.timeline(); });
  if (same == ready.end()) ready.push_back(std::move(now));
  else *same = std::move(now);
}

void SetWriter::discard() {
  const Turns::Turn turn(state_->turns, Deadline(endless), busy);
  state_->added.clear();
  state_->ready.clear();
}

std::uint64_t SetWriter::commit(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  const Turns::Turn turn(state_->turns, deadline, busy);
  State& state = *state_;
  for (const Event& event : state.ready) wait_for(event, deadline);
  const Composed set(state.added);
  state.writing.make_room(set.ids.size());
  auto answer = state.send(set, deadline);
  if (const auto* const refused = std::get_if<Refused>(&answer); refused && refused->why == Why::forgotten) {
    state.writing.forget();
    answer = state.send(set, deadline);
  }
  if (const auto* const refused = std::get_if<Refused>(&answer)) {
    state.writing.forget();
    throw_refusal(*refused);
  }
  state.writing.committed(set.ids);
  state.added.clear();
  state.ready.clear();
  return std::get<Committed>(answer).epoch;
}

void SetWriter::remove(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  const Turns::Turn turn(state_->turns, deadline, busy);
  (void)state_->talk(deadline, [&](Connection& holder) { holder.send(encode(Remove{}), {}, deadline); });
  state_->writing.forget();
}

}  // namespace weir::ipc
