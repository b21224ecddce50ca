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

}  // namespace

const Subset exportable{[](const Memory& memory) { return memory.exportable; },
                        [](const Memory& memory) { return !memory.info.exportable; }, Lasting::permanent,
                        "no other process can open this kind of memory"};
const Subset addressable{&is_addressable, [](const Memory&) { return true; }, Lasting::permanent,
                         "memory that only Vulkan reaches has no address that a stranger could name"};
const Subset host_accessible{[](const Memory& memory) { return memory.info.host_accessible; },
                             [](const Memory&) { return true; }, Lasting::permanent, "the host cannot reach it"};
const Subset unaddressable{[](const Memory& memory) { return !is_addressable(memory); }, nullptr, {}, {}};

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
    } else if (subset.lacks && subset.lacks(memory)) {
      note_left_out(suite, memory.name(), subset.lasting, subset.reason);
    }
  }
  return chosen;
}

}  // namespace weir::test
