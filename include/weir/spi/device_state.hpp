// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is behind a weir::Device. Backends derive from DeviceState, and keep their driver handles in the derived class.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weir/device.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::spi {

/// One device of one backend. Made once and never destroyed, so that process exit cannot crash on it. Once published,
/// nothing in it changes except `inherited`, `releases_done` and `current`.
struct DeviceState {
  const Backend* backend = nullptr;  ///< which made this; never null once published
  int ordinal = 0;                   ///< index within the backend
  Uuid uuid;                         ///< of the hardware
  std::string name;                  ///< for humans
  std::string driver;          ///< name and version; part of the identity that descriptors carry
  bool is_gpu = false;         ///< false also for a CPU driver
  std::size_t total_memory = 0;  ///< bytes; 0 when unknown
  std::vector<KindInfo> kinds; ///< in order of preference
  MemoryKind default_kind{};   ///< one of `kinds`
  MemoryKind staging_kind{};   ///< host-accessible memory that this device's streams copy from and to

  /// Whether this is a forked child and the parent loaded the driver, which must not be called here any more. Changes
  /// only in the handler of a new child, where no other thread runs.
  bool inherited = false;

  /// How many releases have been done: memory that went back, and whatever else had waited for a stream.
  mutable std::atomic<std::uint64_t> releases_done{0};

  /// The state of current_resource(). No resource is called or dropped under the mutex.
  struct Current {
    std::mutex mutex;                    ///< of the other two
    ResourcePtr resource;                ///< null until somebody has asked for it
    std::weak_ptr<MemoryResource> pool;  ///< the one that is current by default
  } current;                             ///< of this device

  DeviceState() : link_(*this) {}  ///< for derived classes
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
  virtual ~DeviceState() = default;
  /// Throw unsupported when `inherited`; otherwise this costs one load.
  void check_process() const {
    if (inherited) [[unlikely]] throw_inherited();
  }
  /// Let the streams of all devices of this backend write `bytes` of the host's memory from `data` on:
  /// whole pages, which stay where they are for as long as the process lives. Returns false where they cannot. Throws
  /// out_of_memory; then the caller may ask again. Otherwise it asks once for each backend and memory.
  [[nodiscard]] virtual bool reach_host(void* /*data*/, std::size_t /*bytes*/) { return false; }
  [[nodiscard]] const KindInfo* find(MemoryKind kind) const noexcept;  ///< in `kinds`; null when absent
  /// Return a text such as "cuda:0 (NVIDIA H200)", for messages.
  [[nodiscard]] std::string describe() const;

 private:
  friend class ForkLink;
  void fork(ForkMoment moment) noexcept;
  [[noreturn]] void throw_inherited() const;

  ForkLink link_;
};

}  // namespace weir::spi
