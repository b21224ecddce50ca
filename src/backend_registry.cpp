// SPDX-License-Identifier: Apache-2.0
#include "backend_registry.hpp"

#include <algorithm>
#include <mutex>

namespace weir::detail {
namespace {

LoadedBackend load(const BackendEntry& entry) {
  LoadedBackend loaded{entry.get ? entry.get() : nullptr, entry.name, {}, {}};
  if (!loaded.backend) {
    loaded.reason = std::string("not built: ") + entry.skipped_because;
    return loaded;
  }
  loaded.devices = loaded.backend->devices(loaded.reason);
  if (!loaded.devices.empty()) loaded.reason.clear();
  return loaded;
}

// One slot per backend, so that asking for the host loads no GPU driver.
struct Slot {
  std::once_flag once;
  LoadedBackend loaded;
};

LoadedBackend& loaded_entry(std::size_t index) {
  static auto& slots = *new std::vector<Slot>(backend_entries().size());
  Slot& slot = slots[index];
  std::call_once(slot.once, [&] { slot.loaded = load(backend_entries()[index]); });
  return slot.loaded;
}

}  // namespace

const std::vector<LoadedBackend>& loaded_backends() {
  static const auto& all = *[] {
    auto* list = new std::vector<LoadedBackend>;
    for (std::size_t i = 0; i < backend_entries().size(); ++i) list->push_back(loaded_entry(i));
    std::stable_sort(list->begin(), list->end(), [](const LoadedBackend& a, const LoadedBackend& b) {
      return (a.backend ? a.backend->rank : -1) > (b.backend ? b.backend->rank : -1);
    });
    return list;
  }();
  return all;
}

spi::DeviceState& host_state() {
  const auto entries = backend_entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::string_view(entries[i].name) == "host") return *loaded_entry(i).devices.at(0);
  }
  throw Error(Errc::unsupported, "this build has no host backend");
}

}  // namespace weir::detail
