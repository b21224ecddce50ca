// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where memory lives: which devices there are, and which kinds of memory each device has. Next, read stream.hpp.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/memory_kind.hpp"

namespace weir {

/// What one kind of memory on one device can do.
struct KindInfo {
  MemoryKind kind{};                 ///< which kind this is
  bool host_accessible = false;      ///< the host can reach the memory
  bool device_accessible = false;    ///< the device can reach the memory
  bool exportable = false;           ///< can be shared with other processes, if its resource is made exportable
  std::size_t alignment = 0;         ///< every segment of this kind begins at a multiple of this
  std::size_t granularity = 1;       ///< sizes of segments are rounded up to a multiple of this
  std::int32_t dlpack_device = 0;    ///< DLDeviceType of tensors that are exported from this memory
  bool release_blocks = false;       ///< giving the memory back may wait for the device, so a thread of weir does it
  bool paged = false;                ///< pools can move the memory page by page; buffers keep their addresses
};

/// Identity of a device across processes and APIs. The CUDA and the Vulkan view of one GPU have the same UUID.
struct WEIR_API Uuid {
  std::array<std::uint8_t, 16> bytes{};         ///< in the order in which to_string() writes them
  [[nodiscard]] std::string to_string() const;  ///< 8-4-4-4-12 hexadecimal digits
  friend bool operator==(const Uuid&, const Uuid&) = default;  ///< whether all bytes are equal
};

/// A value that names one device. It is cheap to copy. Devices live as long as the process.
class WEIR_API Device {
 public:
  [[nodiscard]] std::string_view backend() const noexcept;  ///< "host", "cuda", "vulkan"
  [[nodiscard]] int ordinal() const noexcept;               ///< index within the backend, from 0
  [[nodiscard]] std::string id() const;                     ///< "cuda:0"; device() takes it, but for adopted devices
  [[nodiscard]] std::string_view name() const noexcept;     ///< for example "NVIDIA H200"
  [[nodiscard]] std::string_view driver() const noexcept;   ///< driver and version, for humans
  [[nodiscard]] const Uuid& uuid() const noexcept;          ///< the same in other processes
  [[nodiscard]] bool is_gpu() const noexcept;               ///< false for the host and for CPU drivers of Vulkan
  [[nodiscard]] std::size_t total_memory() const noexcept;  ///< bytes; 0 when unknown
  [[nodiscard]] std::span<const KindInfo> kinds() const noexcept;      ///< in order of preference
  [[nodiscard]] const KindInfo* find(MemoryKind kind) const noexcept;  ///< null when the device lacks that kind
  [[nodiscard]] MemoryKind default_kind() const noexcept;              ///< the kind that make_resource(device) takes
  /// Return the kind of host-accessible memory that copies with the device are fastest from and to.
  [[nodiscard]] MemoryKind staging_kind() const noexcept;

  friend bool operator==(const Device&, const Device&) = default;  ///< whether both name the same device

  explicit Device(spi::DeviceState& state) noexcept : state_(&state) {}  ///< for backends
  [[nodiscard]] spi::DeviceState& state() const noexcept { return *state_; }  ///< for backends

 private:
  spi::DeviceState* state_;
};

/// A backend that this build knows, and its devices or the reason why it has none.
struct BackendInfo {
  std::string name;                 ///< as Device::backend()
  std::string unavailable_because;  ///< one line; empty when at least one device was found
  std::vector<Device> devices;      ///< by ordinal
};

/// List every backend that this build knows. The drivers are loaded once, on the first call.
[[nodiscard]] WEIR_API std::vector<BackendInfo> backends();

/// List every device of every backend: first cuda, then vulkan, then host.
[[nodiscard]] WEIR_API std::vector<Device> devices();

/// Return the host as a device. Never touches a GPU driver.
[[nodiscard]] WEIR_API Device host_device();

/// Return the device named "backend" or "backend:ordinal". Throws invalid_argument when there is no such device; the
/// message lists the devices that there are, or says why the backend has none.
[[nodiscard]] WEIR_API Device device(std::string_view id);

/// Return the device that the environment variable `WEIR_DEVICE` names, if it is set; throws when it names no device.
/// Otherwise return the best device there is: a CUDA device, else a GPU of Vulkan, else the host, else a CPU driver of
/// Vulkan.
[[nodiscard]] WEIR_API Device best_device();

}  // namespace weir
