// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "loop.hpp"
#include "system_calls.hpp"

// Of the leak sanitizer, where there is one.
extern "C" __attribute__((weak)) void __lsan_ignore_object(const void* data);  // NOLINT(bugprone-reserved-identifier)

namespace {

// In front of every block, so that a delete knows whether its new was counted.
struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) Header {
  bool counted;
};

std::atomic<bool> counting{false};
std::atomic<long> blocks{0};
thread_local int unharmed = 0;
thread_local std::size_t left = 0;  // until the one that fails; 0: none fails
thread_local bool for_good = false;   // and all that come after it
thread_local bool arms = false;       // this thread is the test's
std::atomic<long> left_elsewhere{0};  // the same of all other threads together
std::atomic<bool> failed{false};
std::atomic<bool> goes_on{false};  // it may: whoever asked said that it does without

bool fails_now() {
  if (!arms) return left_elsewhere.load(std::memory_order_relaxed) > 0 && left_elsewhere.fetch_sub(1) == 1;
  if (left == 0 || --left != 0) return false;
  left = for_good ? 1 : 0;
  return true;
}

thread_local const std::function<void()>* at_next = nullptr;

void* allocate(std::size_t bytes) {
  if (at_next) (*std::exchange(at_next, nullptr))();
  const bool counted = unharmed == 0 && counting.load(std::memory_order_relaxed);
  if (counted && fails_now()) {
    failed = true;
    throw std::bad_alloc();
  }
  auto* header = static_cast<Header*>(std::malloc(sizeof(Header) + bytes));
  if (!header) throw std::bad_alloc();
  header->counted = counted;
  if (counted) blocks.fetch_add(1, std::memory_order_relaxed);
  // Some of it weir leaks for want of memory, and says so: what may be left is the loop's to count.
  if (counted && __lsan_ignore_object) __lsan_ignore_object(header);
  return header + 1;
}

void give_back(void* data) noexcept {
  if (!data) return;
  auto* header = static_cast<Header*>(data) - 1;
  if (header->counted) blocks.fetch_sub(1, std::memory_order_relaxed);
  std::free(header);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return allocate(bytes);
} catch (const std::bad_alloc&) {
  goes_on = true;
  return nullptr;
}
void* operator new[](std::size_t bytes, const std::nothrow_t& no) noexcept { return operator new(bytes, no); }
void operator delete(void* data, const std::nothrow_t&) noexcept { give_back(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { give_back(data); }
void operator delete(void* data) noexcept { give_back(data); }
void operator delete[](void* data) noexcept { give_back(data); }
void operator delete(void* data, std::size_t) noexcept { give_back(data); }
void operator delete[](void* data, std::size_t) noexcept { give_back(data); }

namespace weir::test {

void at_next_allocation(const std::function<void()>& function) noexcept { at_next = &function; }

namespace {

FailureSink next_sink = nullptr;

void report_unharmed(const Failure& failure) noexcept {
  const Unharmed mine;
  next_sink(failure);
}

}  // namespace

void Unharmed::begin() noexcept { ++unharmed; }
void Unharmed::end() noexcept { --unharmed; }

FailingAllocations::FailingAllocations(const Device& device, Injector* driver, Whose whose)
    : device_(device), driver_(driver), whose_(whose) {
  next_sink = set_failure_sink(&report_unharmed);
}
FailingAllocations::~FailingAllocations() {
  (void)FailingAllocations::disarm();
  set_failure_sink(next_sink);
}

void FailingAllocations::arm(std::size_t nth, std::size_t code) {
  failed = false;
  goes_on = false;
  for_good = code == 1;
  arms = true;
  left = whose_ == Whose::own ? nth : 0;
  left_elsewhere = whose_ == Whose::others ? static_cast<long>(nth) : 0;
  counting = true;
}

std::optional<Injected> FailingAllocations::disarm() {
  counting = false;
  left = 0;
  left_elsewhere = 0;
  if (!failed) return std::nullopt;
  const std::size_t codes = whose_ == Whose::own ? 2 : 1;
  // The second is reported with ENOMEM, as the kernel's own refusal to watch a socket is.
  constexpr const char* names = "std::bad_alloc|stays lent until that succeeds";
  return Injected{"operator new", for_good ? "for good" : "once", codes, names};
}

void FailingAllocations::settle() {
  const Unharmed mine;
  driver_ ? driver_->settle() : settle_core(device_);
  EXPECT_TRUE(threads_ended());  // they own memory
}

const char* FailingAllocations::harmless(const Injected& /*call*/) {
  if (goes_on) return "asked for by somebody who goes on without";
  return driver_ ? "staging memory that cannot be remembered as a spare is given back" : nullptr;
}

const char* FailingAllocations::leaks(const Injected& /*call*/) {
  return "without memory to remember a release by, weir keeps what may still be in use";
}

std::map<std::string, long> FailingAllocations::alive() {
  auto objects = driver_ ? driver_->alive() : std::map<std::string, long>{};
  if (!driver_) objects["blocks of memory"] = blocks.load();
  return objects;
}

}  // namespace weir::test
