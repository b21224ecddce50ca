// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <functional>
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

}  // namespace

std::string name_of(const Device& device) {
  return std::string(device.backend()) + '_' + std::to_string(device.ordinal());
}

std::string Memory::name() const {
  return name_of(device) + '_' + std::string(to_string(info.kind)) + (exportable ? "_exportable" : "");
}

ResourcePtr Memory::make() const { return make_resource(device, info.kind, {.exportable = exportable}); }

std::ostream& operator<<(std::ostream& out, const Memory& memory) { return out << memory.name(); }

std::vector<Memory> memories() {
  std::vector<Memory> all;
  for (const Device& device : devices()) {
    for (const KindInfo& info : device.kinds()) {
      all.push_back({device, info, false});
      if (info.exportable) all.push_back({device, info, true});
    }
  }
  return all;
}

std::vector<Memory> exportable_memories() {
  return those([](const Memory& memory) { return memory.exportable; });
}

std::vector<Memory> addressable_memories() { return those(&is_addressable); }

std::vector<Memory> unaddressable_memories() { return those(std::not_fn(&is_addressable)); }

std::vector<Memory> few_memories() {
  return those([](const Memory& memory) { return memory.device.ordinal() < 2; });
}

}  // namespace weir::test
