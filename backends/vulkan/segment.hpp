// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory from Vulkan: one VkDeviceMemory with one VkBuffer over all of it.

#include "driver.hpp"
#include "weir/spi/backend.hpp"

namespace weir::vulkan {

class Logical;

class Memory final : public spi::Segment {
 public:
  /// How a VkBuffer that an application owns is described.
  struct Foreign {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDeviceSize memory_offset = 0;
    VkDeviceSize bytes = 0;
    std::byte* host = nullptr;
  };

  /// New memory of `bytes` (rounded up), or null with `shortage` filled. Throws for everything else.
  static Memory* make(Logical& logical, MemoryKind kind, std::size_t bytes, bool exportable, Shortage& shortage);
  /// Memory that another process exported. Throws; then the descriptor is closed and nothing was made.
  static Memory* import(Logical& logical, MemoryKind kind, std::size_t bytes, bool read_only, spi::StrangerFd fd);
  /// Around an application's buffer, which must outlive it. Throws.
  static Memory* wrap(Logical& logical, const Foreign& foreign);

  ~Memory() override;

  /// A new descriptor of the memory. Throws.
  [[nodiscard]] spi::UniqueFd export_fd() const;

  void before_host_read(std::size_t offset, std::size_t bytes) override;
  void before_host_write(std::size_t offset, std::size_t bytes) override;
  void after_host_write(std::size_t offset, std::size_t bytes) override;
  [[nodiscard]] spi::MemoryName names() const noexcept override;

  /// Whether the bytes [begin, end) may be among [other_begin, other_end) of `other`, which may be another name of the
  /// same memory.
  [[nodiscard]] bool overlaps(std::size_t begin, std::size_t end, const Memory& other, std::size_t other_begin,
                              std::size_t other_end) const noexcept;

  Logical& logical;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkDeviceSize memory_offset = 0;    ///< of the buffer within the memory
  VkDeviceSize allocation_size = 0;  ///< of the memory; what an importer must name
  bool dedicated = false;
  bool shared = false;              ///< others reach it outside this VkDevice: batches acquire and release it
  VkBuffer whole = VK_NULL_HANDLE;  ///< over all of a shared memory: what is acquired, by whatever name it is used
  bool host_reads = false;          ///< somebody reads it through a mapping

 private:
  Memory(Logical& logical, MemoryKind kind, std::size_t bytes) noexcept;
  void take_after(Memory& owner);
  VkResult create_buffer();
  VkResult allocate(std::uint32_t type, int import_fd);
  VkResult finish(std::uint32_t type, Shortage& shortage);
  VkResult build(int import_fd, Shortage& shortage);
  [[nodiscard]] VkMappedMemoryRange mapped_range(std::size_t offset, std::size_t bytes) const noexcept;

  bool owned_ = true;
  bool needs_dedicated_ = false;
  bool noncoherent_ = false;
  bool counted_ = false;
  std::uint32_t type_bits_ = 0;
};

}  // namespace weir::vulkan
