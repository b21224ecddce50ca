// SPDX-License-Identifier: Apache-2.0
#pragma once
// A reader's side of a connection: the set that arrives, and the segments that it shares with the set before. Knows
// neither files nor clocks.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ipc/hold/messages.hpp"
#include "ipc/hold/named_places.hpp"

namespace weir::detail::hold {

/// `Memory` is made of a segment's descriptor and file.
template <class File, class Memory>
class Reading {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;  ///< of names and layouts, of one set

  struct Arrived {
    std::uint32_t request = 0;
    std::uint64_t epoch = 0;
    std::vector<std::shared_ptr<Memory>> segments;
    std::vector<Packet> tensors;
    std::optional<File> lease;
  };

  /// Return the question to send, or nothing if it is on its way already.
  [[nodiscard]] std::optional<Open> ask(std::uint64_t newer_than) noexcept {
    if (asked_ && asked_->newer_than == newer_than) return std::nullopt;
    asked_ = Open{++last_request_, newer_than};
    return asked_;
  }
  /// The question could not be sent.
  void unasked() noexcept { asked_.reset(); }

  /// Take a packet. Return the set that was asked for last, if that is now complete. Throws corrupt_descriptor when the
  /// holder broke the protocol.
  [[nodiscard]] std::optional<Arrived> receive(Bytes packet, std::vector<File> files) {
    const Message message = decode(packet);
    if (files.size() != files_of(message)) violated(std::to_string(files.size()) + " files beside a message");
    if (const auto* const set = std::get_if<Set>(&message)) {
      begin(*set, std::move(files));
    } else if (const auto* const segments = std::get_if<Segments>(&message)) {
      add(*segments, std::move(files));
    } else if (const auto* const tensors = std::get_if<Tensors>(&message)) {
      add(*tensors, packet);
    } else {
      violated("a message that is not a holder's to a reader");
    }
    if (segments_left_ != 0 || tensors_left_ != 0) return std::nullopt;
    told_ = coming_->segments;
    std::optional<Arrived> complete = std::exchange(coming_, std::nullopt);
    if (!asked_ || complete->request != asked_->request) return std::nullopt;
    const std::uint64_t newer_than = asked_->newer_than;
    asked_.reset();
    if (complete->epoch <= newer_than) violated("epoch " + std::to_string(complete->epoch));
    return complete;
  }

 private:
  void begin(const Set& set, std::vector<File> files) {
    if (coming_) violated("a set before the end of the one before");
    if (set.segments > most_segments) violated(std::to_string(set.segments) + " segments");
    named_.begin(told_.size());
    coming_.emplace();
    coming_->request = set.request;
    coming_->epoch = set.epoch;
    if (set.lease) coming_->lease = std::move(files.front());
    segments_left_ = set.segments;
    tensors_left_ = set.tensors;
    bytes_ = 0;
  }
  void add(const Segments& message, std::vector<File> files) {
    if (!coming_ || message.size() > segments_left_) violated("more segments than it said");
    std::size_t file = 0;
    for (std::size_t i = 0; i < message.size(); ++i) {
      if (message[i] == Segments::fresh) {
        const Bytes descriptor = message.descriptors.subspan(file * wire_size, wire_size);
        coming_->segments.push_back(std::make_shared<Memory>(descriptor, std::move(files[file])));
        ++file;
      } else {
        named_.name(message[i]);
        coming_->segments.push_back(told_[message[i]]);
      }
    }
    segments_left_ -= message.size();
  }
  void add(const Tensors& message, Bytes packet) {
    if (!coming_ || segments_left_ != 0 || message.count > tensors_left_) violated("more tensors than it said");
    if (packet.size() > most_bytes - bytes_) violated("more than " + std::to_string(most_bytes) + " bytes of tensors");
    bytes_ += packet.size();
    coming_->tensors.emplace_back(packet.begin(), packet.end());
    tensors_left_ -= message.count;
  }

  std::optional<Open> asked_;  // and not answered yet
  std::uint32_t last_request_ = 0;
  std::optional<Arrived> coming_;
  std::size_t segments_left_ = 0, tensors_left_ = 0, bytes_ = 0;
  std::vector<std::shared_ptr<Memory>> told_;  // of the set that arrived last
  NamedPlaces named_;                          // in coming_
};

}  // namespace weir::detail::hold
