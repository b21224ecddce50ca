// SPDX-License-Identifier: Apache-2.0
#include "weir/device.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/forks.hpp"
#include "device/registry.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"

namespace weir {
namespace {

std::string known_devices() {
  std::string list;
  for (const Device& device : devices()) list += (list.empty() ? "" : ", ") + device.id();
  return list;
}

struct Selector {
  std::string_view backend;
  int ordinal = 0;
};

std::optional<Selector> parse(std::string_view id) {
  const auto colon = id.find(':');
  Selector selector{id.substr(0, colon), 0};
  if (selector.backend.empty()) return std::nullopt;
  if (colon == std::string_view::npos) return selector;
  const auto digits = id.substr(colon + 1);
  if (digits.starts_with('-')) return std::nullopt;  // from_chars accepts "-0"
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), selector.ordinal);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return selector;
}

}  // namespace

std::string Uuid::to_string() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

std::string_view Device::backend() const noexcept { return state_->backend->name; }
int Device::ordinal() const noexcept { return state_->ordinal; }
std::string Device::id() const { return std::string(backend()) + ":" + std::to_string(ordinal()); }
std::string_view Device::name() const noexcept { return state_->name; }
std::string_view Device::driver() const noexcept { return state_->driver; }
const Uuid& Device::uuid() const noexcept { return state_->uuid; }
bool Device::is_gpu() const noexcept { return state_->is_gpu; }
std::size_t Device::total_memory() const noexcept { return state_->total_memory; }
std::span<const KindInfo> Device::kinds() const noexcept { return state_->kinds; }
const KindInfo* Device::find(MemoryKind kind) const noexcept { return state_->find(kind); }
MemoryKind Device::default_kind() const noexcept { return state_->default_kind; }
MemoryKind Device::staging_kind() const noexcept { return state_->staging_kind; }

const KindInfo* spi::DeviceState::find(MemoryKind kind) const noexcept {
  for (const KindInfo& info : kinds) {
    if (info.kind == kind) return &info;
  }
  return nullptr;
}

std::string spi::DeviceState::describe() const {
  return std::string(backend->name) + ":" + std::to_string(ordinal) + " (" + name + ")";
}

void spi::DeviceState::fork(ForkMoment moment) noexcept {
  detail::hold_across_fork(current.mutex, moment);
  const bool made = backend != nullptr;  // else by a thread that does not exist in the child
  if (moment == ForkMoment::child && made && !backend->survives_fork) inherited = true;
}

void spi::DeviceState::throw_inherited() const {
  throw Error(Errc::unsupported, describe() + ": its driver was loaded before this process was forked, and does not "
                                              "work in the child; start a new program instead (spawn)");
}

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> list;
  for (const auto& loaded : detail::loaded_backends()) {
    BackendInfo info{loaded.name, loaded.reason, {}};
    for (auto* state : loaded.devices) info.devices.emplace_back(*state);
    list.push_back(std::move(info));
  }
  return list;
}

std::vector<Device> devices() {
  std::vector<Device> list;
  for (const auto& loaded : detail::loaded_backends()) {
    for (auto* state : loaded.devices) list.emplace_back(*state);
  }
  return list;
}

Device host_device() { return Device(detail::host_state()); }

Device device(std::string_view id) {
  const auto selector = parse(id);
  if (!selector) {
    throw Error(Errc::invalid_argument, "device \"" + std::string(id) +
                                            "\" is not of the form backend or backend:ordinal; there are " +
                                            known_devices());
  }
  if (selector->backend == "host" && selector->ordinal == 0) return host_device();
  for (const auto& loaded : detail::loaded_backends()) {
    if (loaded.name != selector->backend) continue;
    if (loaded.devices.empty()) {
      throw Error(Errc::invalid_argument, "device \"" + std::string(id) + "\": backend " + loaded.name +
                                              " has no devices: " + loaded.reason + "; there are " + known_devices());
    }
    for (auto* state : loaded.devices) {
      if (state->ordinal == selector->ordinal) return Device(*state);
    }
  }
  throw Error(Errc::invalid_argument, "no device \"" + std::string(id) + "\"; there are " + known_devices());
}

Device best_device() {
  if (const char* wanted = std::getenv("WEIR_DEVICE"); wanted && *wanted) {
    try {
      return device(wanted);
    } catch (const Error& error) {
      throw Error(error.code(), std::string("WEIR_DEVICE: ") + error.what());
    }
  }
  const auto all = devices();
  const auto gpu = std::ranges::find_if(all, &Device::is_gpu);
  if (gpu != all.end()) return *gpu;
  const auto host = std::ranges::find(all, "host", &Device::backend);  // faster than a Vulkan driver on the same processor
  return host != all.end() || all.empty() ? host_device() : all.front();
}

}  // namespace weir
