// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <ostream>

namespace weir::test {

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
  std::vector<Memory> chosen;
  for (const Memory& memory : memories()) {
    if (memory.exportable) chosen.push_back(memory);
  }
  return chosen;
}

std::vector<Memory> few_memories() {
  std::vector<Memory> chosen;
  for (const Memory& memory : memories()) {
    if (memory.device.ordinal() < 2) chosen.push_back(memory);
  }
  return chosen;
}

}  // namespace weir::test
