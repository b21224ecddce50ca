// SPDX-License-Identifier: Apache-2.0
#pragma once
// What happens to the memory of a debug resource after a buffer is closed: it is checked, kept full of poison, checked
// again and given back. The quarantine outlives the resource as long as any of that is pending.

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "adaptors/debug/guarded.hpp"
#include "base/fork_mutex.hpp"
#include "stream/releases.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/memory_resource.hpp"

namespace weir::detail {

class Quarantine : public std::enable_shared_from_this<Quarantine> {
 public:
  using GiveBack = void (*)(MemoryResource& upstream, spi::Block& block) noexcept;
  using Live = std::map<const spi::Block*, std::unique_ptr<Guarded>>;

  /// `how` is MemoryResource::deallocate_to, which only resources may call.
  Quarantine(ResourcePtr upstream, std::string name, const DebugOptions& options, GiveBack how);

  /// Watch a buffer that lives from now on, and number it. Needs no memory.
  void watch(Live::node_type guarded) noexcept;
  /// Take back the block of a closed buffer. Its uses may be pending; upstream gets the block later.
  void closed(spi::Block& block) noexcept;

  enum class Look : std::uint8_t {
    at_all,       ///< check all memory; what only a device reaches goes to upstream later, after a copy was checked
    where_quick,  ///< check what the host reaches; the rest goes to upstream at once, unchecked
  };
  /// Give upstream everything that is kept. Return whether there was anything.
  bool give_back_kept(Look look) noexcept;
  /// Return the bytes that wait for a check.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_bytes_.load(std::memory_order_relaxed); }
  /// Check what can be checked. Return whether there was anything.
  bool settle() noexcept { return queue_.settle(); }
  /// The same, and give upstream what is kept. Repeat this until upstream has got something, nothing waits any
  /// more, or `deadline` has passed. Return whether upstream has got something.
  bool give_back_some(std::chrono::steady_clock::time_point deadline) noexcept;
  /// Check everything that was closed before this call, and wait until that is done.
  void drain();
  /// The resource ends: give back what is kept, and keep nothing from now on.
  void end() noexcept;

  [[nodiscard]] std::uint64_t violations() const noexcept {
    return violations_.load(std::memory_order_relaxed);
  }

 private:
  using Owned = std::unique_ptr<Guarded>;
  /// A place in an allocation, all bytes of which should have one value.
  struct Expected {
    std::size_t begin, bytes;
    std::byte value;
    const char* otherwise;  ///< what it means if they do not, for a report
  };
  using Places = std::array<Expected, 2>;  ///< the second may be empty

  /// Check the guards, once all uses of the memory are over.
  void look_at_guards(Owned guarded) noexcept;
  void look_at_poison(Owned guarded) noexcept;
  /// Check the places, fill the allocation with poison if `poison` is set, then call `next`. All of it happens at once
  /// where the host reaches the memory.
  void look(Owned guarded, const Places& places, bool poison, void (Quarantine::*next)(Owned) noexcept);
  void look_on_host(const Guarded& guarded, const Places& places, bool poison);
  void look_on_device(Owned& guarded, const Places& places, bool poison,
                      void (Quarantine::*next)(Owned) noexcept);
  void judge(const Guarded& guarded, const Expected& place, std::span<const std::byte> bytes) noexcept;
  void judge_copy(const Guarded& guarded, const Places& places, const Buffer& copy);
  void keep(Owned guarded) noexcept;
  void give_back(Owned guarded) noexcept;
  template <class Action>
  void after(std::vector<spi::Point> points, Owned& guarded, Action action);
  void give_back_unseen(Owned guarded, const std::exception& why) noexcept;
  [[nodiscard]] bool keeps(const Guarded& guarded) const noexcept;

  const ResourcePtr upstream_;
  const std::string name_;
  const DebugOptions options_;
  const GiveBack give_back_;
  std::atomic<std::uint64_t> violations_{0};
  std::atomic<bool> told_lost_{false};  // the loss of the device was reported
  std::atomic<std::size_t> waiting_bytes_{0};
  std::atomic<std::uint64_t> given_back_{0};  // blocks
  ReleaseQueue queue_;

  ForkMutex mutex_;
  Live live_;
  std::uint64_t last_number_ = 0;
  Guarded* oldest_ = nullptr;  // of those that are kept
  Guarded* newest_ = nullptr;
  std::size_t kept_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace weir::detail
