// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where memory lives: what machines are here, what kinds of memory each one has. Then stream.hpp.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/fwd.hpp"

namespace weir {

/// Kinds of memory, across backends. A device lists the ones it has in `Device::kinds()`.
enum class MemoryKind : std::uint8_t {
  pageable,     ///< host: ordinary memory
  shared,       ///< host: a sealed memfd that other processes can map
  pinned,       ///< CUDA: page-locked host memory
  managed,      ///< CUDA: migrates between host and device
  device,       ///< CUDA `cuMemAlloc`, Vulkan device-local
  async,        ///< CUDA: driver memory pool, allocated and freed in stream order
  vmm,          ///< CUDA: physical handles mapped into a reserved range; exportable
  upload,       ///< Vulkan: host writes, device reads
  readback,     ///< Vulkan: device writes, host reads (cached)
  mappable,     ///< Vulkan: device-local and host-visible at once
  external,     ///< made elsewhere: adopted, imported by DLPack
};

[[nodiscard]] std::string_view to_string(MemoryKind kind) noexcept;

/// What one kind of memory on one device can do.
struct KindInfo {
  MemoryKind kind{};
  bool host_accessible = false;
  bool device_accessible = false;
  bool exportable = false;           ///< can be shared with another process when asked for at creation
  std::size_t alignment = 0;         ///< every segment of this kind begins at a multiple of this
  std::size_t granularity = 1;       ///< segments are rounded up to a multiple of this
  std::int32_t dlpack_device = 0;    ///< DLDeviceType under which tensors in it are exported
  bool release_blocks = false;       ///< giving it back may wait for the device, so a thread of weir does it
  bool paged = false;                ///< pools can move it under their buffers' addresses page by page
};

/// Identity of a device across processes and APIs: the CUDA and Vulkan views of one GPU have the same.
struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  [[nodiscard]] std::string to_string() const;  ///< 8-4-4-4-12 hexadecimal digits
  friend bool operator==(const Uuid&, const Uuid&) = default;
};

/// A value that names one device. Cheap to copy; devices live as long as the process.
class Device {
 public:
  [[nodiscard]] std::string_view backend() const noexcept;  ///< "host", "cuda", "vulkan"
  [[nodiscard]] int ordinal() const noexcept;               ///< index within the backend, from 0
  [[nodiscard]] std::string id() const;                     ///< "cuda:0"; accepted by `device()`
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] std::string_view driver() const noexcept;   ///< driver and version, for humans
  [[nodiscard]] const Uuid& uuid() const noexcept;
  [[nodiscard]] bool is_gpu() const noexcept;
  [[nodiscard]] std::size_t total_memory() const noexcept;  ///< bytes; 0 when unknown
  [[nodiscard]] std::span<const KindInfo> kinds() const noexcept;
  [[nodiscard]] const KindInfo* find(MemoryKind kind) const noexcept;  ///< null when the device has none
  [[nodiscard]] MemoryKind default_kind() const noexcept;

  friend bool operator==(const Device&, const Device&) = default;

  explicit Device(spi::DeviceState& state) noexcept : state_(&state) {}  ///< for backends
  [[nodiscard]] spi::DeviceState& state() const noexcept { return *state_; }

 private:
  spi::DeviceState* state_;
};

/// One backend of this build, and why it has no devices if it has none.
struct BackendInfo {
  std::string name;
  std::string unavailable_because;  ///< empty when at least one device was found; else one line
  std::vector<Device> devices;
};

/// Every backend of this build. Drivers are loaded on the first call, once.
[[nodiscard]] std::vector<BackendInfo> backends();

/// Every device of every backend: cuda, then vulkan, then host.
[[nodiscard]] std::vector<Device> devices();

/// The host. Never touches a GPU driver.
[[nodiscard]] Device host_device();

/// The device named "backend" or "backend:ordinal". Throws invalid_argument naming the devices there are.
[[nodiscard]] Device device(std::string_view id);

/// `WEIR_DEVICE` if set (throws when it names no device), else CUDA before Vulkan GPU before Vulkan CPU before host.
[[nodiscard]] Device best_device();

}  // namespace weir
