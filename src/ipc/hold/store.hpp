// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a holder keeps: for each name the newest set, within limits. Knows neither files nor clocks.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipc/hold/messages.hpp"

namespace weir::detail::hold {

/// What may be kept at most, as HolderOptions says it.
struct Limits {
  std::size_t sets, tensors, bytes, files;
};

/// What is kept at a moment.
struct Usage {
  std::size_t bytes = 0, files = 0;
};

/// Counts as bytes and files of a Usage as long as it lives.
class Charge {
 public:
  Charge(std::shared_ptr<Usage> usage, std::size_t bytes, std::size_t files) noexcept
      : usage_(std::move(usage)), bytes_(bytes), files_(files) {
    usage_->bytes += bytes_;
    usage_->files += files_;
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    usage_->bytes -= bytes_;
    usage_->files -= files_;
  }
  void add(std::size_t bytes) noexcept { bytes_ += bytes, usage_->bytes += bytes; }

 private:
  const std::shared_ptr<Usage> usage_;
  std::size_t bytes_, files_;
};

/// Memory of a set. Several sets may have it.
template <class File>
struct KeptSegment {
  KeptSegment(std::shared_ptr<Usage> usage, Bytes told, File from)
      : charge(std::move(usage), wire_size, 1), descriptor(told.begin(), told.end()), file(std::move(from)) {}
  Charge charge;
  std::vector<std::byte> descriptor;
  File file;
};

/// A set, complete or in the making.
template <class File>
struct KeptSet {
  explicit KeptSet(std::shared_ptr<Usage> usage) : charge(std::move(usage), 0, 0) {}
  Charge charge;
  std::uint64_t epoch = 0;
  std::vector<std::shared_ptr<const KeptSegment<File>>> segments;
  std::vector<Packet> tensors;  // packets, as they came
  std::size_t tensor_count = 0;
  std::optional<File> lease;
  std::optional<Charge> lease_charge;
};

template <class File>
class Store {
 public:
  using Kept = std::shared_ptr<const KeptSet<File>>;

  explicit Store(const Limits& limits) : limits_(limits) {}
  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
  [[nodiscard]] const std::shared_ptr<Usage>& usage() const noexcept { return usage_; }
  [[nodiscard]] std::size_t size() const noexcept { return sets_.size(); }

  /// Return the set of that name; null when there is none.
  [[nodiscard]] Kept find(const std::string& name) const {
    const auto known = sets_.find(name);
    return known == sets_.end() ? nullptr : known->second;
  }
  /// Return whether there is room for a set of that name.
  [[nodiscard]] bool has_room(const std::string& name) const {
    return sets_.size() < limits_.sets || sets_.contains(name);
  }
  /// Put a set in the place of the one with that name. Return its epoch, which is greater than all before.
  std::uint64_t put(const std::string& name, std::shared_ptr<KeptSet<File>> made) {
    made->epoch = last_epoch_ + 1;
    sets_[name] = std::move(made);
    return ++last_epoch_;
  }
  void remove(const std::string& name) { sets_.erase(name); }

 private:
  const Limits limits_;
  const std::shared_ptr<Usage> usage_ = std::make_shared<Usage>();
  std::map<std::string, Kept> sets_;
  std::uint64_t last_epoch_ = 0;
};

}  // namespace weir::detail::hold
