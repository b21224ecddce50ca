// SPDX-License-Identifier: Apache-2.0
// How an error ends a timeline, and how that is reported.
#include <atomic>
#include <string>
#include <utility>

#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown exception";
  }
}

// Return the condition of a timeline that `error` ended: peer_gone if that is the error's own, else device_lost.
Errc condition_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == Errc::peer_gone ? Errc::peer_gone : Errc::device_lost;
  } catch (...) {
    return Errc::device_lost;
  }
}

Error lost_error(const DeviceState& device, std::uint64_t id, const std::exception_ptr& why) {
  return {condition_of(why),
          "stream " + std::to_string(id) + " on " + device.describe() + " is lost: " + message_of(why)};
}

std::atomic<StreamState::Disbelieve> false_stores{nullptr};

}  // namespace

void StreamState::throw_if_lost() {
  if (!lost()) return;
  device_->check_process();
  throw lost_error(*device_, id_, error_);
}

// Return whether `error` says that the device or the peer is gone for good. After any other error, the next attempt may
// succeed.
bool StreamState::says_gone(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == Errc::peer_gone || known.code() == Errc::device_lost;
  } catch (...) {
    return false;
  }
}

void StreamState::lose_if_gone(const std::exception_ptr& error) noexcept {
  if (says_gone(error)) lose(error);
}

// While a thread has the turn, which may be this one, nothing is reported: the user's sink may call this stream.
void StreamState::lose(std::exception_ptr error, bool goes_on) noexcept {
  if (!become_lost(error, goes_on)) return;
  {
    const Lock lock(mutex_);
    if (inside_) {
      unreported_ = true;
      return;
    }
  }
  report_lost();
}

void StreamState::on_false_stores(Disbelieve disbelieve) noexcept { false_stores.store(disbelieve); }

void StreamState::lose_unready(std::exception_ptr error) noexcept {
  lose(std::move(error), true);
  if (const auto disbelieve = false_stores.load()) disbelieve(*this);
}

// Return false when the timeline was lost before.
bool StreamState::become_lost(const std::exception_ptr& error, bool goes_on) noexcept {
  const Lock lock(mutex_);
  if (lost()) return false;
  error_ = error;
  goes_on_ = goes_on;
  lost_.store(true, std::memory_order_release);
  changed_.notify_all();
  return true;
}

void StreamState::report_lost() noexcept {
  if (submitted_.load() < inherited_) return;  // the parent's work, for which nobody in this process has asked yet
  try {
    const auto failure = lost_error(*device_, id_, error_);
    report({failure.code(), "stream", failure.what()});
  } catch (const std::exception& shortage) {  // there is no memory to say why
    report({make_error_code(std::errc::not_enough_memory), "stream", shortage.what()});
  }
}

// The timeline was lost before, so nobody has heard that memory which was used on it stays in use for ever.
void StreamState::report_unmarked(const std::exception_ptr& refused) noexcept {
  try {
    report({{},
            "stream",
            "stream " + std::to_string(id_) + " on " + device_->describe() +
                " has ended, and memory that it used is never free: " + message_of(refused)});
  } catch (const std::exception& shortage) {  // there is no memory to say why
    report({make_error_code(std::errc::not_enough_memory), "stream", shortage.what()});
  }
}

}  // namespace weir::spi
