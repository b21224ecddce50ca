// SPDX-License-Identifier: Apache-2.0
#pragma once
// The holder's side of a writer: the set that it is sending. It is nobody's until the commit, and then the whole set is
// the next epoch. What goes beyond a limit is dropped at once, and refused at the commit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipc/hold/named_places.hpp"
#include "ipc/hold/store.hpp"

namespace weir::detail::hold {

template <class File>
class Staging {
 public:
  Staging(Store<File>& store, std::string name) : store_(store), name_(std::move(name)) {}

  void add(const Segments& message, std::vector<File> files) {
    if (refusal_) return;
    KeptSet<File>& set = made();
    if (message.size() > most_segments - set.segments.size())
      violated("more than " + std::to_string(most_segments) + " segments");
    if (!has_room(message.descriptors.size(), message.files())) return;
    std::size_t file = 0;
    for (std::size_t i = 0; i < message.size(); ++i) {
      std::shared_ptr<const KeptSegment<File>> segment;
      if (message[i] == Segments::fresh) {
        // Not by make_shared, because told_ outlives it, and would keep its room.
        segment.reset(new KeptSegment<File>(store_.usage(), message.descriptors.subspan(file * wire_size, wire_size),
                                            std::move(files[file])));
        ++file;
      } else {
        named_.name(message[i]);
        segment = told_[message[i]].lock();
        if (!segment) return refuse({Why::forgotten, 0});
      }
      set.segments.push_back(std::move(segment));
    }
  }

  void add(const Tensors& message, Bytes packet) {
    if (refusal_) return;
    KeptSet<File>& set = made();
    if (message.count > store_.limits().tensors - set.tensor_count)
      return refuse({Why::tensors, store_.limits().tensors});
    if (!has_room(packet.size(), 0)) return;
    set.tensors.emplace_back(packet.begin(), packet.end());
    set.tensor_count += message.count;
    set.charge.add(packet.size());
  }

  /// Make what was added the next epoch, or say why not. Either forgets what was added.
  [[nodiscard]] Packet commit(const Commit& message, std::vector<File> files) {
    if (!refusal_) {
      KeptSet<File>& set = made();
      if (message.tensors != set.tensor_count || message.segments != set.segments.size())
        violated("a commit of " + std::to_string(message.tensors) + " tensors in " + std::to_string(message.segments) +
                 " segments, after " + std::to_string(set.tensor_count) + " in " + std::to_string(set.segments.size()));
      if (!store_.has_room(name_)) refuse({Why::sets, store_.limits().sets});
      else if (message.lease && has_room(0, 1)) {
        set.lease_charge.emplace(store_.usage(), 0, 1);
        set.lease = std::move(files.front());
      }
    }
    if (refusal_) {
      const Refused answer = *std::exchange(refusal_, std::nullopt);
      clear();
      return encode(answer);
    }
    told_.assign(set_->segments.begin(), set_->segments.end());
    return encode(Committed{store_.put(name_, std::move(set_))});
  }

  void remove() {
    refusal_.reset();
    clear();
    store_.remove(name_);
  }

  /// Return whether there is something that was added and not committed.
  [[nodiscard]] bool has_begun() const noexcept { return set_ != nullptr; }
  /// Forget what was added. The writer learns of it at the commit, and sends the set again.
  void give_up() {
    if (has_begun()) refuse({Why::forgotten, 0});
  }

  /// Files came with a packet and were lost, because the process can open no more.
  void lost_files() { refuse({Why::no_more_files, store_.usage()->files}); }

 private:
  KeptSet<File>& made() {
    if (!set_) {
      named_.begin(told_.size());
      set_ = std::make_shared<KeptSet<File>>(store_.usage());
    }
    return *set_;
  }
  [[nodiscard]] bool has_room(std::size_t bytes, std::size_t files) {
    const Usage& used = *store_.usage();
    const Limits& limits = store_.limits();
    if (bytes > limits.bytes - std::min(used.bytes, limits.bytes)) refuse({Why::bytes, limits.bytes});
    if (files > limits.files - std::min(used.files, limits.files)) refuse({Why::files, limits.files});
    return !refusal_;
  }
  void refuse(const Refused& why) {
    if (!refusal_) refusal_ = why;
    set_.reset();
  }
  void clear() noexcept {
    set_.reset();
    told_.clear();
  }

  Store<File>& store_;
  const std::string name_;
  std::shared_ptr<KeptSet<File>> set_;  // in the making
  // Of the last commit. They belong to the sets that have them, so that a writer that stays keeps no memory alive.
  std::vector<std::weak_ptr<const KeptSegment<File>>> told_;
  NamedPlaces named_;  // in the set in the making
  std::optional<Refused> refusal_;
};

}  // namespace weir::detail::hold
