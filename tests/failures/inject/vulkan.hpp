// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Vulkan driver behind vulkan_shim/, which weir loads as if it were the system's loader.

#include "injector.hpp"
#include "vulkan_shim/shim.hpp"
#include "weir/device.hpp"

namespace weir::test {

class FailingVulkan final : public Injector {
 public:
  /// `device` is one of weir's own: listed, and opened through the shim.
  explicit FailingVulkan(const Device& device);
  ~FailingVulkan() override;
  /// Run `enter` and `leave` around every call of the driver.
  void around(void (*enter)(), void (*leave)());

  void arm(std::size_t nth, std::size_t code) override;
  std::optional<Injected> disarm() override;
  void settle() override;
  std::map<std::string, long> alive() override;
  const char* harmless(const Injected& call) override;

 private:
  Device device_;
  vulkan_shim::Arm arm_;
  vulkan_shim::Disarm disarm_;
  vulkan_shim::Alive alive_;
  vulkan_shim::Around around_;
};

/// Let weir load the shim. Runs before main, so that the first look at the devices goes through it.
extern const bool shim_chosen;

}  // namespace weir::test
