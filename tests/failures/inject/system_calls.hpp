// SPDX-License-Identifier: Apache-2.0
#pragma once
// The system calls that weir makes, each with the errors it has. The linker puts them between weir and the C library
// (--wrap), so that no other library is disturbed.

#include <atomic>

#include "injector.hpp"
#include "weir/device.hpp"

namespace weir::test {

class FailingSystemCalls final : public Injector {
 public:
  explicit FailingSystemCalls(const Device& device, Injector* driver = nullptr) : device_(device), driver_(driver) {}
  void arm(std::size_t nth, std::size_t code) override;
  /// The same of the calls with that name alone, which is a literal. Null: of all.
  void arm_only(const char* call, std::size_t nth, std::size_t code);
  std::optional<Injected> disarm() override;
  void settle() override;
  std::map<std::string, long> alive() override;
  const char* harmless(const Injected& call) override;

 private:
  Device device_;
  Injector* driver_;  // counts the driver's objects, fails nothing
};

/// Is told of each link() and unlink() of weir just before it is made: which of them, and the name that it makes or
/// removes.
using PathCall = void(const char* call, const char* path);
extern std::atomic<PathCall*> before_path_call;

/// So many of the next connects of weir, and of the next polls to which it gives the longest limit that it gives one,
/// end at once, as if their limit had passed.
extern std::atomic<int> ended_early;

/// So many of the next connects of weir are interrupted by a signal.
extern std::atomic<int> interrupted;

/// Wait until no thread that weir started is left, or what it owned.
bool threads_ended();

}  // namespace weir::test
