// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every memory of this machine, as test parameters. A suite crossed with `memories()` runs on all of them.

#include <iosfwd>
#include <string>
#include <vector>

#include "weir/memory_resource.hpp"

namespace weir {

/// How GoogleTest names a device in messages.
void PrintTo(const Device& device, std::ostream* out);

}  // namespace weir

namespace weir::test {

/// One (device, kind, exportable) that exists here.
struct Memory {
  Device device;
  KindInfo info;
  bool exportable = false;

  [[nodiscard]] std::string name() const;  ///< "cuda_0_vmm_exportable"
  [[nodiscard]] ResourcePtr make() const;  ///< its plain resource
};
std::ostream& operator<<(std::ostream& out, const Memory& memory);

/// All of them, of every device; kinds that can be exported appear twice.
std::vector<Memory> memories();
/// Those whose buffers go to other processes.
std::vector<Memory> exportable_memories();
/// Those with an address that a stranger can name, and the others: memory that only Vulkan reaches.
std::vector<Memory> addressable_memories();
std::vector<Memory> unaddressable_memories();
/// Those of at most two devices per backend: for tests that cross memories with memories.
std::vector<Memory> few_memories();

/// "vulkan_0".
std::string name_of(const Device& device);

/// Name generator for INSTANTIATE_TEST_SUITE_P.
struct MemoryName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return info.param.name();
  }
};
struct DeviceName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return name_of(info.param);
  }
};

}  // namespace weir::test
