// SPDX-License-Identifier: Apache-2.0
#include "device/registry.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "base/forks.hpp"
#include "base/loaded_code.hpp"

namespace weir::detail {
namespace {

// There is one slot per backend, so that asking for the host loads no GPU driver. The slots and the mutex are
// initialized at compile time, so that no fork finds them half made. Drivers are loaded without the lock, because a
// fork must not wait for a driver.
struct Slot {
  enum State { empty, loading, done };
  std::atomic<State> state{empty};
  pthread_t loader{};
  LoadedBackend* loaded = nullptr;
};
constexpr std::size_t most_backends = 16;
constinit std::array<Slot, most_backends> slots;
constinit std::mutex slots_mutex;

LoadedBackend load(const BackendEntry& entry) {
  LoadedBackend loaded{entry.get ? entry.get() : nullptr, entry.name, {}, {}};
  if (!loaded.backend) {
    loaded.reason = std::string("not built: ") + entry.skipped_because;
    return loaded;
  }
  try {
    loaded.devices = loaded.backend->devices(loaded.reason);
    if (!loaded.devices.empty()) loaded.reason.clear();
  } catch (const std::exception& error) {
    loaded.reason = error.what();
  }
  return loaded;
}

bool begin_loading(Slot& slot) {
  const std::scoped_lock lock(slots_mutex);
  if (slot.state != Slot::empty) return false;
  slot.loader = pthread_self();
  slot.state = Slot::loading;
  return true;
}

void finish(Slot& slot, Slot::State state) noexcept {
  slot.state.store(state, std::memory_order_release);
  slot.state.notify_all();
}

LoadedBackend& loaded_entry(std::size_t index) {
  Slot& slot = slots.at(index);
  while (slot.state.load(std::memory_order_acquire) != Slot::done) {
    if (!begin_loading(slot)) {
      slot.state.wait(Slot::loading);
      continue;
    }
    try {
      keep_code_loaded();
      slot.loaded = new LoadedBackend(load(backend_entries()[index]));
    } catch (...) {
      finish(slot, Slot::empty);
      throw;
    }
    finish(slot, Slot::done);
  }
  return *slot.loaded;
}

// For a forked child: give up a load that another thread of the parent had begun.
void abandon(Slot& slot, const BackendEntry& entry) {
  if (slot.state != Slot::loading || pthread_equal(slot.loader, pthread_self())) return;
  const auto* backend = entry.get ? entry.get() : nullptr;
  if (!backend || backend->survives_fork) return finish(slot, Slot::empty);
  slot.loaded = new LoadedBackend{backend, entry.name, "its driver was being loaded when this process was forked", {}};
  finish(slot, Slot::done);
}

const ForkStep registry_step(8, [](spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) return slots_mutex.lock();
  const auto entries = backend_entries();
  for (std::size_t i = 0; moment == spi::ForkMoment::child && i < entries.size(); ++i) abandon(slots.at(i), entries[i]);
  slots_mutex.unlock();
});

}  // namespace

const std::vector<LoadedBackend>& loaded_backends() {
  static constinit std::atomic<const std::vector<LoadedBackend>*> published{nullptr};
  if (const auto* all = published.load(std::memory_order_acquire)) return *all;
  auto list = std::make_unique<std::vector<LoadedBackend>>();
  for (std::size_t i = 0; i < backend_entries().size(); ++i) list->push_back(loaded_entry(i));
  std::stable_sort(list->begin(), list->end(), [](const LoadedBackend& a, const LoadedBackend& b) {
    return (a.backend ? a.backend->rank : -1) > (b.backend ? b.backend->rank : -1);
  });
  const std::vector<LoadedBackend>* all = nullptr;
  if (published.compare_exchange_strong(all, list.get(), std::memory_order_acq_rel)) all = list.release();
  return *all;
}

spi::DeviceState& host_state() {
  const auto entries = backend_entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::string_view(entries[i].name) == "host") return *loaded_entry(i).devices.at(0);
  }
  throw Error(Errc::unsupported, "this build has no host backend");
}

}  // namespace weir::detail
