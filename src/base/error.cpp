// SPDX-License-Identifier: Apache-2.0
#include "weir/error.hpp"

#include <cstddef>
#include <new>

namespace weir {
namespace {

class WeirCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "weir"; }
  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::invalid_argument: return "invalid argument";
      case Errc::unsupported: return "not supported";
      case Errc::incompatible: return "incompatible";
      case Errc::closed: return "closed";
      case Errc::device_lost: return "device lost";
      case Errc::peer_gone: return "peer process gone";
      case Errc::corrupt_descriptor: return "corrupt descriptor";
      case Errc::permission_denied: return "permission denied";
      case Errc::timed_out: return "timed out";
      case Errc::out_of_memory: return "out of memory";
    }
    return "unknown weir error " + std::to_string(value);
  }
  bool equivalent(const std::error_code& code, int condition) const noexcept override {
    if (std::error_category::equivalent(code, condition)) return true;
    switch (static_cast<Errc>(condition)) {  // as the operating system reports it
      case Errc::permission_denied:
        return code == std::errc::permission_denied || code == std::errc::operation_not_permitted;
      case Errc::out_of_memory: return code == std::errc::not_enough_memory;
      default: return false;
    }
  }
};

std::string bytes_text(std::size_t bytes) {
  std::string text = std::to_string(bytes);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), 1, ' ');
  return text + " bytes";
}

void add(std::string& text, const char* label, std::size_t bytes) {
  if (bytes != 0) text += std::string(", ") + label + " " + bytes_text(bytes);
}

std::string describe(const Shortage& s) {
  std::string text = "out of memory: " + bytes_text(s.requested) + " asked of " + s.resource + " on " + s.device;
  if (s.alignment > 256) text += ", alignment " + std::to_string(s.alignment);
  add(text, "in use by this resource", s.in_use);
  add(text, "reserved by it", s.reserved);
  add(text, "largest free range", s.largest_free);
  add(text, "limit", s.limit);
  add(text, "free on the device", s.device_free);
  if (!s.call.empty()) {
    text += "; " + s.call + " said " + s.native.message() + " (" + std::to_string(s.native.value()) + ")";
  } else {
    text += "; the driver was not asked";
  }
  if (s.leased_buffers != 0) {
    const bool one = s.leased_buffers == 1;
    text += "; " + std::to_string(s.leased_buffers) + (one ? " buffer of " : " buffers of ") + bytes_text(s.leased) +
            (one ? " is" : " in all are") + " closed here and still used by " +
            (s.leased_to.empty() ? "other processes" : s.leased_to);
  }
  text += ". Close buffers that are done, ";
  if (s.leased_buffers != 0) text += "wait until other processes give theirs back (ipc::wait_for_returns), ";
  return text + "trim other resources of this device, or ask for less at a time.";
}

}  // namespace

const std::error_category& weir_category() noexcept {
  // Never destroyed, because destructors may need it at exit. Not on the heap, because it is needed to report that
  // there is no memory.
  alignas(WeirCategory) static std::byte place[sizeof(WeirCategory)];
  static const auto& category = *new (place) WeirCategory;
  return category;
}

std::error_condition make_error_condition(Errc condition) noexcept {
  return {static_cast<int>(condition), weir_category()};
}

Error::Error(Errc condition, const std::string& message)
    : Error(std::error_code(static_cast<int>(condition), weir_category()), message) {}

Error::Error(std::error_code native, const std::string& message)
    : std::system_error(native), message_(std::make_shared<const std::string>(message)) {}

const char* Error::what() const noexcept { return message_->c_str(); }

struct OutOfMemory::State {
  Shortage shortage;
  std::string message;
};

OutOfMemory::OutOfMemory(Shortage shortage) {
  auto message = describe(shortage);
  state_ = std::make_shared<const State>(State{std::move(shortage), std::move(message)});
}

const char* OutOfMemory::what() const noexcept { return state_->message.c_str(); }
const Shortage& OutOfMemory::shortage() const noexcept { return state_->shortage; }

}  // namespace weir
