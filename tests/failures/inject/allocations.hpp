// SPDX-License-Identifier: Apache-2.0
#pragma once
// The program's operator new, which fails on demand and counts what was not deleted yet.

#include <functional>

#include "injector.hpp"
#include "weir/device.hpp"
#include "weir/error.hpp"

namespace weir::test {

/// While it exists, allocations of this thread neither fail nor count: they are the driver's, or the test's.
class Unharmed {
 public:
  Unharmed() noexcept { begin(); }
  ~Unharmed() { end(); }
  Unharmed(const Unharmed&) = delete;
  Unharmed& operator=(const Unharmed&) = delete;
  static void begin() noexcept;
  static void end() noexcept;
};

/// Have this thread call `function` at the beginning of its next allocation.
void at_next_allocation(const std::function<void()>& function) noexcept;

/// Whose allocations fail.
enum class Whose {
  own,    ///< those of the thread that arms: the n-th once, or with all that come after it
  others  ///< those of all other threads, which are the library's: the n-th once
};

/// Fails allocations of one thread, or of the others. What else is allocated only counts.
class FailingAllocations : public Injector {
 public:
  explicit FailingAllocations(const Device& device, Injector* driver = nullptr, Whose whose = Whose::own);
  ~FailingAllocations() override;
  void arm(std::size_t nth, std::size_t code) override;
  std::optional<Injected> disarm() override;
  void settle() override;
  std::map<std::string, long> alive() override;
  const char* harmless(const Injected& call) override;
  const char* leaks(const Injected& call) override;

 private:
  Device device_;
  Injector* driver_;  // counts the driver's objects, fails nothing
  Whose whose_;
};

}  // namespace weir::test
