// SPDX-License-Identifier: Apache-2.0
#pragma once
// What weir throws, and where failures go that nobody can catch. Every public call either succeeds, or throws and
// leaves nothing behind. weir's own exceptions are Error and OutOfMemory below, unless a function names another type.
// Exceptions of the standard library and of the caller's own functions pass through.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "weir/export.hpp"

namespace weir {

/// Portable conditions. A comparison such as `error.code() == Errc::closed` holds whichever backend failed. The native
/// number stays in `error.code().value()`.
enum class Errc {
  invalid_argument = 1,  ///< the caller broke a rule that the message names
  unsupported,           ///< this device, memory or driver cannot do what was asked
  incompatible,          ///< two things do not fit together: devices, drivers, sizes, versions
  closed,                ///< the handle was closed, moved from, or never opened
  device_lost,           ///< the device or its driver is gone for good; handles can still be closed
  peer_gone,             ///< the other process ended
  corrupt_descriptor,    ///< bytes from outside failed validation
  permission_denied,     ///< the operating system or a read-only grant refused
  timed_out,             ///< the time limit passed; the work continues
  out_of_memory,         ///< matches native out-of-memory codes; resources throw OutOfMemory instead
};

/// Return the category of the errors that weir detects itself and of the conditions above.
[[nodiscard]] WEIR_API const std::error_category& weir_category() noexcept;
/// Return `condition` in the form that std::error_code is compared with. Comparisons with an Errc call this.
[[nodiscard]] WEIR_API std::error_condition make_error_condition(Errc condition) noexcept;

/// Every failure except exhaustion. `what()` says what was asked for, what was available, which device and driver call
/// were involved, and what to try.
class WEIR_API Error : public std::system_error {
 public:
  /// Make an error that weir detected itself: `code()` has weir_category().
  Error(Errc condition, const std::string& message);
  /// Make an error of a driver or the operating system, with their code.
  Error(std::error_code native, const std::string& message);
  Error(const Error&) noexcept = default;  ///< so is a move, after which the error still says what it said
  Error& operator=(const Error&) noexcept = default;  ///< likewise
  ~Error() override = default;
  [[nodiscard]] const char* what() const noexcept override;  ///< the message, as it was given

 private:
  std::shared_ptr<const std::string> message_;
};

/// The figures of a refused allocation, in bytes; 0 where unknown. A resource fills in what it knows.
struct Shortage {
  std::size_t requested = 0;     ///< as the caller asked
  std::size_t alignment = 0;     ///< asked for; at least default_alignment
  std::size_t in_use = 0;        ///< handed out by this resource
  std::size_t reserved = 0;      ///< held by this resource, handed out or not
  std::size_t limit = 0;         ///< the most this resource or device may hold
  std::size_t largest_free = 0;  ///< the largest single range that was free
  std::size_t device_free = 0;   ///< what the device reported as free
  std::string device;            ///< for example "cuda:0 (NVIDIA H200)"
  std::string resource;          ///< for example "cuda.device"
  std::string call;              ///< the driver call that refused; empty when the driver was not asked
  std::error_code native;        ///< the code that this call returned
  std::size_t leased = 0;        ///< in buffers that are closed here, and that other processes still use
  std::size_t leased_buffers = 0;  ///< count of these
  std::string leased_to;           ///< who uses them, for example "process 4711"
};

/// The resource could not provide the memory. `try_allocate` returns nullopt instead.
class WEIR_API OutOfMemory : public std::bad_alloc {
 public:
  /// Make the message of `what()` from the figures.
  explicit OutOfMemory(Shortage shortage);
  OutOfMemory(const OutOfMemory&) noexcept = default;  ///< so is a move, after which the error still says what it said
  OutOfMemory& operator=(const OutOfMemory&) noexcept = default;  ///< likewise
  ~OutOfMemory() override = default;
  [[nodiscard]] const char* what() const noexcept override;  ///< one line with every known figure
  [[nodiscard]] const Shortage& shortage() const noexcept;   ///< the figures, valid as long as the exception

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// A failure in a place that must not throw: a destructor, a deleter, a driver callback, a worker thread.
struct Failure {
  std::error_code code;      ///< of the driver, the operating system or weir_category(); may be empty
  std::string_view where;    ///< for example "Buffer::close"
  std::string_view message;  ///< one line
};

/// A function that receives every Failure, on any thread and possibly on several at once. Must not throw.
using FailureSink = void (*)(const Failure&) noexcept;

/// Replace the sink and return the previous sink. The default sink prints to stderr, at most 16 lines a second. Null
/// restores the default sink.
WEIR_API FailureSink set_failure_sink(FailureSink sink) noexcept;

/// Hand `failure` to the current sink.
WEIR_API void report(const Failure& failure) noexcept;

}  // namespace weir

template <>
struct std::is_error_condition_enum<weir::Errc> : std::true_type {};
