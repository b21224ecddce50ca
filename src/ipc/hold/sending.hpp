// SPDX-License-Identifier: Apache-2.0
#pragma once
// The holder's side of a reader: which set it wants, and how far the set that goes to it has come. A reader that does
// not read keeps that one set alive, for as long as the holder has patience with it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ipc/hold/store.hpp"

namespace weir::detail::hold {

template <class File>
class Sending {
 public:
  Sending(const Store<File>& store, std::string name) : store_(store), name_(std::move(name)) {}

  /// The reader asks. A question before that was not answered yet is forgotten.
  void ask(const Open& question) noexcept { asked_ = question; }
  [[nodiscard]] bool has_packet() const { return set_ || answer() != nullptr; }
  /// Return whether a set is on its way, which lives as long as that.
  [[nodiscard]] bool has_begun() const noexcept { return set_ != nullptr; }

  /// Make the next packet, and name the files beside it, which stay valid until sent(). Call it if there is one; the
  /// same again until sent().
  void compose(Packet& packet, std::vector<const File*>& files) {
    if (!set_) start();
    if (!head_sent_) {
      packet = encode(Set{request_, set_->epoch, static_cast<std::uint32_t>(set_->segments.size()),
                          static_cast<std::uint32_t>(set_->tensor_count), set_->lease.has_value()});
      if (set_->lease) files.push_back(&*set_->lease);
    } else if (segments_sent_ < set_->segments.size()) {
      compose_segments(packet, files);
    } else {
      packet = set_->tensors[tensors_sent_];
    }
  }
  /// The packet was sent.
  void sent() {
    if (!head_sent_) head_sent_ = true;
    else if (segments_sent_ < set_->segments.size()) segments_sent_ = segments_next_;
    else ++tensors_sent_;
    if (segments_sent_ < set_->segments.size() || tensors_sent_ < set_->tensors.size()) return;
    told_.assign(set_->segments.begin(), set_->segments.end());
    known_.clear();
    set_.reset();
  }

 private:
  using Segment = KeptSegment<File>;

  [[nodiscard]] typename Store<File>::Kept answer() const {
    if (!asked_) return nullptr;
    auto newest = store_.find(name_);
    return newest && newest->epoch > asked_->newer_than ? newest : nullptr;
  }
  void start() {
    set_ = answer();
    request_ = asked_->request;
    asked_.reset();
    head_sent_ = false;
    segments_sent_ = tensors_sent_ = 0;
    known_.clear();
    for (std::size_t i = 0; i < told_.size(); ++i) {
      if (const auto segment = told_[i].lock()) known_.emplace(segment.get(), static_cast<std::uint32_t>(i));
    }
  }
  void compose_segments(Packet& packet, std::vector<const File*>& files) {
    std::vector<std::uint32_t> entries;
    std::vector<Bytes> descriptors;
    for (segments_next_ = segments_sent_; segments_next_ < set_->segments.size(); ++segments_next_) {
      if (!has_room(entries.size(), files.size())) break;
      const Segment& segment = *set_->segments[segments_next_];
      const auto known = known_.find(&segment);
      entries.push_back(known == known_.end() ? Segments::fresh : known->second);
      if (known != known_.end()) continue;
      descriptors.push_back(segment.descriptor);
      files.push_back(&segment.file);
    }
    packet = encode_segments(entries, descriptors);
  }

  const Store<File>& store_;
  const std::string name_;
  std::optional<Open> asked_;
  typename Store<File>::Kept set_;  // that is being sent
  std::uint32_t request_ = 0;
  bool head_sent_ = false;
  std::size_t segments_sent_ = 0, segments_next_ = 0, tensors_sent_ = 0;
  // Of the set that was sent last. Weak, so that a reader that never asks again keeps nothing alive here.
  std::vector<std::weak_ptr<const Segment>> told_;
  std::unordered_map<const Segment*, std::uint32_t> known_;  // places in told_ of those that are alive
};

}  // namespace weir::detail::hold
