// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every memory of this machine, as test parameters: plain, and under each stack of stack.hpp. A suite crossed with
// `memories()` runs on all of them; one that asks for more than every memory has names a Subset, with the reason.

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exclusions.hpp"
#include "stack.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// How GoogleTest names a device in messages.
void PrintTo(const Device& device, std::ostream* out);

}  // namespace weir

namespace weir::test {

/// One (device, kind, exportable) that exists here, and what stands over its plain resource.
struct Memory {
  Device device;
  KindInfo info;
  bool exportable = false;
  const Stack* stack = nullptr;  ///< null for the plain resource alone

  [[nodiscard]] std::string name() const;  ///< "cuda_0_vmm_exportable_forwarded3"
  [[nodiscard]] ResourcePtr make() const;  ///< its resource, the uppermost one
  [[nodiscard]] Memory plain() const;      ///< the same without the stack
  [[nodiscard]] std::size_t layers() const { return stack ? stack->layers : 0; }
};
std::ostream& operator<<(std::ostream& out, const Memory& memory);

/// All of them, of every device; kinds that can be exported appear twice, those with a stack once more each.
std::vector<Memory> memories();
/// Those of at most two devices per backend, plain: for tests that cross memories with memories.
std::vector<Memory> few_memories();
/// Those that have a stack.
std::vector<Memory> stacked_memories();

/// Memories that can do what a suite asks for, and why others cannot.
struct Subset {
  bool (*has)(const Memory&);
  /// Of the others, those that are excluded, and why; nothing for those that the suite does not ask for. Null where it
  /// asks for none of them.
  std::optional<Lack> (*lacks)(const Memory&) = nullptr;
};

extern const Subset exportable;       ///< their buffers go to other processes
extern const Subset addressable;      ///< have an address that a stranger can name
extern const Subset host_accessible;  ///< the host reads and writes them
extern const Subset unaddressable;    ///< only Vulkan reaches them: for suites about how they refuse

/// The memories of `subset`; those that lack it are noted as exclusions of `suite`, once per call, which is
/// once per test.
std::vector<Memory> crossed(const char* suite, const Subset& subset);

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
