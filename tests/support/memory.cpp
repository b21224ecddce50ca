// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <ostream>

namespace weir {

void PrintTo(const Device& device, std::ostream* out) { *out << device.id(); }

}  // namespace weir

namespace weir::test {
namespace {

template <class Predicate>
std::vector<Memory> those(Predicate wanted) {
  std::vector<Memory> chosen;
  for (const Memory& memory : memories()) {
    if (wanted(memory)) chosen.push_back(memory);
  }
  return chosen;
}

bool is_addressable(const Memory& memory) { return memory.info.host_accessible || memory.device.backend() != "vulkan"; }

std::optional<Lack> is_not_shared(const Memory& memory) {
  using enum Lasting;
  if (memory.info.exportable) return {};  // made not to be shared, and there is another that is
  if (memory.device.backend() == "vulkan") return Lack{this_machine, "its Vulkan driver shares no memory of this kind"};
  switch (memory.info.kind) {
    case MemoryKind::pageable: return Lack{permanent, "no file names ordinary memory of a process"};
    case MemoryKind::managed: return Lack{permanent, "CUDA gives managed memory to no other process"};
    case MemoryKind::vmm: return Lack{this_machine, "its CUDA driver exports no memory as files"};
    case MemoryKind::device: return Lack{not_built, "cuMemAlloc's memory has handles for other processes"};
    case MemoryKind::async: return Lack{not_built, "CUDA's pools have handles for other processes"};
    case MemoryKind::pinned: return Lack{not_built, "memory of a file can be page-locked for CUDA"};
    default: return Lack{not_built, "sharing of this kind of memory"};
  }
}

std::optional<Lack> has_no_address(const Memory& /*memory*/) { return no_vulkan_addresses; }

std::optional<Lack> is_not_mapped(const Memory& memory) {
  if (memory.device.backend() == "vulkan" && memory.info.kind != MemoryKind::device) {
    return Lack{Lasting::this_machine, "WEIR_VULKAN_FORCE_STAGING lets the host reach staging memory alone"};
  }
  return Lack{Lasting::permanent, "this kind of memory is the device's, and the host has no pointer to it"};
}

}  // namespace

const Subset exportable{[](const Memory& memory) { return memory.exportable; }, &is_not_shared};
const Subset addressable{&is_addressable, &has_no_address};
const Subset host_accessible{[](const Memory& memory) { return memory.info.host_accessible; }, &is_not_mapped};
const Subset unaddressable{[](const Memory& memory) { return !is_addressable(memory); }};

std::string name_of(const Device& device) {
  return std::string(device.backend()) + '_' + std::to_string(device.ordinal());
}

std::string Memory::name() const {
  return name_of(device) + '_' + std::string(to_string(info.kind)) + (exportable ? "_exportable" : "") +
         (stack ? '_' + std::string(stack->name) : "");
}

ResourcePtr Memory::make() const {
  ResourcePtr resource = make_resource(device, info.kind, {.exportable = exportable});
  return stack ? stack->over(std::move(resource)) : resource;
}

Memory Memory::plain() const { return {device, info, exportable, nullptr}; }

std::ostream& operator<<(std::ostream& out, const Memory& memory) { return out << memory.name(); }

std::vector<Memory> memories() {
  std::vector<Memory> all;
  const auto add = [&all](const Memory& plain) {
    all.push_back(plain);
    for (const Stack& stack : stacks()) {
      if (!stack.stands_on(plain)) continue;
      all.push_back(plain);
      all.back().stack = &stack;
    }
  };
  for (const Device& device : devices()) {
    for (const KindInfo& info : device.kinds()) {
      add({device, info, false});
      if (info.exportable) add({device, info, true});
    }
  }
  return all;
}

std::vector<Memory> few_memories() {
  return those([](const Memory& memory) { return !memory.stack && memory.device.ordinal() < 2; });
}

std::vector<Memory> stacked_memories() {
  return those([](const Memory& memory) { return memory.stack != nullptr; });
}

std::vector<Memory> crossed(const char* suite, const Subset& subset) {
  std::vector<Memory> chosen;
  for (const Memory& memory : memories()) {
    if (subset.has(memory)) {
      chosen.push_back(memory);
    } else if (const auto lack = subset.lacks ? subset.lacks(memory) : std::nullopt) {
      note_left_out(suite, memory.name(), lack->lasting, lack->reason);
    }
  }
  return chosen;
}

}  // namespace weir::test
