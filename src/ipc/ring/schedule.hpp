// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which consumer of a ring is sent which frame next, and which frames are forgotten. Knows neither memory, nor files,
// nor clocks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace weir::detail::ring {

/// Keeps a `Frame` until every consumer has been sent it, and a `Line` for each consumer. What goes over the lines goes
/// by way of a `Wire`, which has these members:
///   capacity(line)       room: buffers that the line takes now; lent: buffers that it has; left: it takes no more;
///                        ended: it has nothing any more
///   greet(line, first)   say which frame is the consumer's first; return whether there was room in the socket
///   send(line, from, to) send frames; return how many were sent, which may be fewer
///   end(line)            let go of the line
///   failed(line)         the exception that is being handled kept this consumer from being served
///   is_lost(frame)       the work on the frame was lost, so that nobody can be sent it; asked after a failure
/// Not thread-safe.
template <class Frame, class Line>
class Schedule {
 public:
  struct Waiting {
    std::uint64_t sequence;
    Frame frame;
  };
  struct Consumer {
    std::uint64_t id;
    Line line;
    std::uint64_t next;  ///< the first frame that it has not been sent
    std::uint64_t missed = 0;
    bool greeted = false;
  };
  using Frames = std::deque<Waiting>;

  /// A consumer has at most so many buffers at a time.
  explicit Schedule(std::size_t per_consumer) : per_consumer_(per_consumer) {}

  /// Serve one more consumer, beginning with the next frame. Return its number.
  std::uint64_t add(Line line) {
    consumers_.push_back({last_id_ + 1, std::move(line), next_});
    return ++last_id_;
  }
  /// Publish the frames; `number(frame, sequence)` writes its number into one. Return the number of the first. When
  /// this throws, nothing is published.
  template <class Number>
  std::uint64_t publish(std::span<Frame> frames, const Number& number) {
    const std::size_t before = waiting_.size();
    try {
      for (Frame& frame : frames) {
        const std::uint64_t sequence = next_ + (waiting_.size() - before);
        number(frame, sequence);
        waiting_.push_back({sequence, std::move(frame)});
      }
    } catch (...) {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(before), waiting_.end());
      throw;
    }
    return std::exchange(next_, next_ + frames.size());
  }
  /// Send to every consumer what it takes. Move the frames that turn out to be lost to `ended`; the consumers that have
  /// not been sent them miss them.
  template <class Wire>
  void serve(Wire&& wire, std::vector<Waiting>& ended) noexcept {
    for (Consumer& consumer : consumers_) {
      do {
        try {
          serve(consumer, wire);
          break;
        } catch (...) {
          wire.failed(consumer.line);
        }
      } while (drop_lost(consumer, wire, ended));
    }
  }
  /// Forget the consumers that are gone, and move the frames that all others have been sent to `ended`. Where there is
  /// no room for them, nothing changes, and the first consumer has failed; a caller without consumers makes room
  /// before.
  template <class Wire>
  void forget(Wire&& wire, std::vector<Waiting>& ended) noexcept {
    std::uint64_t needed = next_;
    for (const Consumer& consumer : consumers_) {
      const auto now = wire.capacity(consumer.line);
      if (!now.left && !now.ended) needed = std::min(needed, consumer.next);
    }
    const auto over = static_cast<std::size_t>(find(needed) - waiting_.begin());
    try {
      ended.reserve(ended.size() + over);
    } catch (const std::bad_alloc&) {
      if (!consumers_.empty()) wire.failed(consumers_.front().line);
      return;
    }
    for (auto consumer = consumers_.begin(); consumer != consumers_.end();) {
      const auto now = wire.capacity(consumer->line);
      if (now.ended || (now.left && now.lent == 0)) {
        wire.end(consumer->line);
        consumer = consumers_.erase(consumer);
      } else {
        ++consumer;
      }
    }
    for (std::size_t i = 0; i < over; ++i) {
      ended.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  /// Take back the oldest frame that nobody else has, by `is_free(frame, all)`, where `all` are the frames that wait.
  template <class IsFree>
  [[nodiscard]] std::optional<Waiting> drop(const IsFree& is_free) {
    const auto oldest =
        std::ranges::find_if(waiting_, [&](const Waiting& waiting) { return is_free(waiting.frame, waiting_); });
    if (oldest == waiting_.end()) return std::nullopt;
    std::optional<Waiting> dropped(std::move(*oldest));
    waiting_.erase(oldest);
    ++dropped_;
    return dropped;
  }
  /// Let go of everything. Return the frames, which from now on are the caller's alone.
  [[nodiscard]] Frames& end(std::list<Consumer>& consumers) noexcept {
    ended_.swap(waiting_);
    consumers.swap(consumers_);
    return ended_;
  }

  [[nodiscard]] std::list<Consumer>& consumers() noexcept { return consumers_; }
  [[nodiscard]] const std::list<Consumer>& consumers() const noexcept { return consumers_; }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }
  [[nodiscard]] std::size_t waiting_for(const Consumer& consumer) const noexcept {
    return static_cast<std::size_t>(waiting_.end() - find(consumer.next));
  }
  [[nodiscard]] std::uint64_t published() const noexcept { return next_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  template <class Wire>
  void serve(Consumer& consumer, Wire& wire) {
    while (!consumer.greeted || consumer.next != next_) {
      const auto capacity = wire.capacity(consumer.line);
      if (capacity.room == 0) return;
      if (!consumer.greeted) {
        consumer.greeted = wire.greet(consumer.line, consumer.next);
        if (!consumer.greeted) return;
        continue;
      }
      if (capacity.lent >= per_consumer_) return;
      if (!send(consumer, std::min<std::size_t>(capacity.room, per_consumer_ - capacity.lent), wire)) return;
    }
  }
  // Return whether something was sent.
  template <class Wire>
  bool send(Consumer& consumer, std::size_t most, Wire& wire) {
    const auto begin = find(consumer.next);
    const auto some = std::min(most, static_cast<std::size_t>(waiting_.end() - begin));
    if (some == 0) return false;
    const auto sent = wire.send(consumer.line, begin, begin + static_cast<std::ptrdiff_t>(some));
    for (auto frame = begin; frame != begin + static_cast<std::ptrdiff_t>(sent); ++frame) {
      consumer.missed += frame->sequence - consumer.next;
      consumer.next = frame->sequence + 1;
    }
    return sent != 0;
  }
  // Return whether there were any. Otherwise one of them would keep all later frames from being sent.
  template <class Wire>
  bool drop_lost(const Consumer& consumer, Wire& wire, std::vector<Waiting>& ended) noexcept {
    const std::size_t before = waiting_.size();
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      if (!wire.is_lost(at->frame)) {
        ++at;
        continue;
      }
      try {
        ended.reserve(ended.size() + 1);
      } catch (const std::bad_alloc&) {
        wire.failed(consumer.line);
        break;
      }
      ended.push_back(std::move(*at));
      at = waiting_.erase(at);
      ++dropped_;
    }
    return waiting_.size() != before;
  }
  [[nodiscard]] auto find(std::uint64_t sequence) const noexcept {
    return std::ranges::lower_bound(waiting_, sequence, {}, &Waiting::sequence);
  }

  const std::size_t per_consumer_;
  Frames waiting_;  // by sequence
  Frames ended_;    // a place for them that is there when memory is not
  std::list<Consumer> consumers_;
  std::uint64_t next_ = 0, last_id_ = 0, dropped_ = 0;
};

}  // namespace weir::detail::ring
