// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory from Vulkan: one VkDeviceMemory with one VkBuffer over all of it.

#include <string>

#include "driver.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/location.hpp"

namespace weir::vulkan {

class Logical;

/// Return text such as "usage 0xc0", for messages.
std::string usage_text(VkBufferUsageFlags usage);

class Memory final : public spi::Segment {
 public:
  /// Describes a VkBuffer that an application owns.
  struct Foreign {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDeviceSize memory_offset = 0;
    VkDeviceSize bytes = 0;
    std::byte* host = nullptr;
  };

  /// Make memory of `bytes` (rounded up), whose VkBuffer has `extra_usage` besides the usual one. When memory is
  /// exhausted, return null with `shortage` filled. Throws for everything else.
  static Memory* make(Logical& logical, MemoryKind kind, std::size_t bytes, bool exportable, Shortage& shortage,
                      VkBufferUsageFlags extra_usage = 0);
  /// Open memory that another process exported, and let go of the descriptor. If this throws, the caller still has the
  /// descriptor, and nothing was made.
  static Memory* import(Logical& logical, MemoryKind kind, std::size_t bytes, bool read_only, spi::StrangerFd& fd);
  /// Open memory of another backend on the same GPU: the handle names all of `of`. Throws.
  static Memory* view(Logical& logical, const spi::Segment& of, spi::ExportedHandle handle);
  /// Wrap an application's buffer, which must outlive the result. Throws.
  static Memory* wrap(Logical& logical, const Foreign& foreign);

  ~Memory() override;

  /// Return a new descriptor of the memory. Throws.
  [[nodiscard]] spi::UniqueFd export_fd() const;

  void before_host_read(std::size_t offset, std::size_t bytes) override;
  void before_host_write(std::size_t offset, std::size_t bytes) override;
  void after_host_write(std::size_t offset, std::size_t bytes) override;
  [[nodiscard]] spi::MemoryName names() const noexcept override;

  /// Return whether the bytes [begin, end) may overlap [other_begin, other_end) of `other`, which may be another name
  /// of the same memory.
  [[nodiscard]] bool overlaps(std::size_t begin, std::size_t end, const Memory& other, std::size_t other_begin,
                              std::size_t other_end) const noexcept;

  Logical& logical;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkDeviceSize memory_offset = 0;    ///< of the buffer within the memory
  VkDeviceSize allocation_size = 0;  ///< of the memory; an importer must name this size
  bool dedicated = false;
  bool shared = false;              ///< others reach it outside this VkDevice, so batches acquire and release it
  VkBuffer whole = VK_NULL_HANDLE;  ///< covers all of a shared memory; batches acquire this, whichever name they use
  bool host_reads = false;          ///< somebody may read the memory through a mapping

 private:
  Memory(Logical& logical, MemoryKind kind, std::size_t bytes) noexcept;
  void take_after(Memory& owner);
  VkResult create_buffer(VkBufferUsageFlags usage, VkBuffer& made) const;
  VkResult create_buffer();
  VkResult agree_with_importers();
  VkResult allocate(std::uint32_t type, int import_fd);
  VkResult finish(std::uint32_t type, Shortage& shortage);
  VkResult build(int import_fd, Shortage& shortage);
  [[nodiscard]] VkMappedMemoryRange mapped_range(std::size_t offset, std::size_t bytes) const noexcept;

  bool owned_ = true;
  bool counted_ = false;
  VkBufferUsageFlags extra_usage_ = 0;
  std::uint32_t type_bits_ = 0;
  VkDeviceSize opened_ = 0;  // bytes of the allocation that is opened, if its maker said how many
};

/// Return the memory in which a copy reads or writes.
inline Memory& memory_of(const spi::Location& place) { return static_cast<Memory&>(*place.segment); }

}  // namespace weir::vulkan
