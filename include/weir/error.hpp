// SPDX-License-Identifier: Apache-2.0
#pragma once
// What weir throws, and where failures go that nobody can catch. Every public call either succeeds or throws one of
// the two types below and leaves nothing behind.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

namespace weir {

/// Portable conditions. Compare with `error.code() == Errc::closed`; it holds whichever backend failed, while the
/// native number stays in `error.code().value()`.
enum class Errc {
  invalid_argument = 1,  ///< the caller broke a rule that the message names
  unsupported,           ///< this device, memory or driver cannot do that
  incompatible,          ///< two things that do not fit together: devices, drivers, sizes, versions
  closed,                ///< the handle was closed, moved from, or never opened
  device_lost,           ///< the device or its driver is gone for good; handles can still be closed
  peer_gone,             ///< the other process ended
  corrupt_descriptor,    ///< bytes from outside that fail validation
  permission_denied,     ///< the operating system or a read-only grant refused
  timed_out,             ///< the time given passed; the work goes on
  out_of_memory,         ///< condition of native out-of-memory codes; thrown as OutOfMemory
};

/// The category of errors that weir detects itself, and of the conditions above.
[[nodiscard]] const std::error_category& weir_category() noexcept;
[[nodiscard]] std::error_condition make_error_condition(Errc condition) noexcept;

/// Every failure but exhaustion. `what()` says what was asked, what was there, which device and driver call, and what
/// to try.
class Error : public std::system_error {
 public:
  Error(Errc condition, const std::string& message);
  Error(std::error_code native, const std::string& message);
  [[nodiscard]] const char* what() const noexcept override;

 private:
  std::shared_ptr<const std::string> message_;
};

/// Figures of a refused allocation, in bytes; 0 where unknown. A resource fills in what it knows.
struct Shortage {
  std::size_t requested = 0;
  std::size_t alignment = 0;
  std::size_t in_use = 0;        ///< handed out by this resource
  std::size_t reserved = 0;      ///< held by this resource, handed out or not
  std::size_t limit = 0;         ///< the most this resource or device may hold
  std::size_t largest_free = 0;  ///< largest single range that would have fitted
  std::size_t device_free = 0;   ///< what the device reported as free
  std::string device;            ///< for example "cuda:0 (NVIDIA H200)"
  std::string resource;          ///< for example "cuda.device"
  std::string call;              ///< driver call that refused, empty when the driver was not asked
  std::error_code native;        ///< its code
};

/// The resource could not provide the memory. `try_allocate` returns nullopt instead.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(Shortage shortage);
  [[nodiscard]] const char* what() const noexcept override;
  [[nodiscard]] const Shortage& shortage() const noexcept;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// A failure in a place that must not throw: a destructor, a deleter, a driver callback, a worker thread.
struct Failure {
  std::error_code code;
  std::string_view where;    ///< for example "Buffer::close"
  std::string_view message;  ///< one line
};

/// Receives every Failure, on any thread, possibly several at once. Must not throw.
using FailureSink = void (*)(const Failure&) noexcept;

/// Replace the sink and return the previous one. The default prints to stderr, at most 16 lines a second. Null
/// restores the default.
FailureSink set_failure_sink(FailureSink sink) noexcept;

/// Hand `failure` to the current sink.
void report(const Failure& failure) noexcept;

}  // namespace weir

template <>
struct std::is_error_condition_enum<weir::Errc> : std::true_type {};
