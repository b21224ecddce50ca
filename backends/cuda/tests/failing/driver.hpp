// SPDX-License-Identifier: Apache-2.0
#pragma once
// The CUDA driver behind shim.cc, which weir has loaded through WEIR_CUDA_LIBRARY.

#include "injector.hpp"
#include "shim.hpp"
#include "weir/device.hpp"

namespace weir::cuda_test {

/// Whether weir's driver is the shim.
bool runs_over_shim();

class FailingCuda final : public test::Injector {
 public:
  FailingCuda();
  ~FailingCuda() override;

  void arm(std::size_t nth, std::size_t code) override;
  /// Let the device fault at the nth call. Only over the modelled driver.
  void arm_fault(std::size_t nth);
  std::optional<test::Injected> disarm() override;
  /// Run these before and after each call, on its thread.
  void around(void (*enter)(), void (*leave)()) { around_(enter, leave); }
  /// How many calls this thread has made so far.
  [[nodiscard]] std::size_t calls() const { return calls_(); }
  void settle() override;
  std::map<std::string, long> alive() override;
  const char* harmless(const test::Injected& call) override;
  const char* renewed_after(const test::Injected& call) override;

  /// Events that the driver made so far. They are kept for use again, so that they are not among `alive`.
  [[nodiscard]] long events() const;

 private:
  static std::size_t lent_streams();

  shim::Arm arm_;
  shim::ArmFault arm_fault_;
  shim::Disarm disarm_;
  shim::Calls calls_;
  shim::Alive alive_;
  shim::Around around_;
  std::size_t (*idle_)();
};

}  // namespace weir::cuda_test
