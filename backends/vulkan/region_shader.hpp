// SPDX-License-Identifier: Apache-2.0
#pragma once
// Region copies by a compute shader (shaders/copy_rows.comp), in units of 4, 8 or 16 bytes. One dispatch takes the
// place of a copy command with a region for each row.

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "driver.hpp"
#include "weir/spi/region.hpp"

namespace weir::vulkan {

class Logical;

/// What the shader is told, as push constants. Rows lie along up to three dimensions. Steps are in units.
struct RowNumbers {
  VkDeviceAddress dst;          ///< of the first row
  VkDeviceAddress src;          ///< of the row with the lowest address
  std::uint32_t units;          ///< of all rows, at most `most_units`
  std::uint32_t row;            ///< units
  std::uint32_t inner, middle;  ///< counts of rows
  std::int32_t dst_inner, dst_middle, dst_outer;
  std::int32_t src_first;  ///< of the first row, from `src`
  std::int32_t src_inner, src_middle, src_outer;

  static constexpr std::uint32_t most_units = 0x7fffffff;
  static constexpr std::uint32_t group = 256, most_groups = 65'535;  ///< units, and groups that every driver takes
  [[nodiscard]] std::uint32_t groups() const noexcept;
};

/// The dispatches that copy a region, or none.
struct RowDispatches {
  std::uint32_t unit = 0;  ///< bytes
  std::vector<RowNumbers> all;
};

/// Return how to copy a region between the addresses of its first row. None where its rows are not whole units, or are
/// further apart than the shader can count.
[[nodiscard]] RowDispatches row_dispatches(VkDeviceAddress dst, VkDeviceAddress src, const spi::Region& region);

/// The pipelines of one VkDevice, made when they are first asked for.
class RegionShader {
 public:
  explicit RegionShader(const Logical& logical) noexcept : logical_(logical) {}
  RegionShader(const RegionShader&) = delete;
  RegionShader& operator=(const RegionShader&) = delete;

  struct Pipeline {
    VkPipeline handle = VK_NULL_HANDLE;  ///< null when the driver made none
    VkPipelineLayout layout = VK_NULL_HANDLE;
  };
  [[nodiscard]] Pipeline pipeline(std::uint32_t unit) noexcept;
  /// Destroy all of them. Nothing that uses them is pending.
  void destroy() noexcept;

 private:
  VkPipeline make(std::uint32_t unit) const noexcept;

  const Logical& logical_;
  std::mutex mutex_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  std::array<VkPipeline, 3> pipelines_{};
};

}  // namespace weir::vulkan
