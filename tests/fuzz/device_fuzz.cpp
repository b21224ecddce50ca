// SPDX-License-Identifier: Apache-2.0
// The device selector, `device(text)` and WEIR_DEVICE, against a second reading of "backend[:ordinal]".

#include <cstdlib>
#include <optional>

#include "target.hpp"
#include "weir/device.hpp"
#include "weir/error.hpp"

namespace weir::fuzz {
namespace {

/// The device that `text` names, found by comparing with every device's own names.
std::optional<Device> named(std::string_view text) {
  const auto colon = text.find(':');
  std::string_view digits = colon == text.npos ? "0" : text.substr(colon + 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return std::nullopt;
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  for (const Device& each : devices()) {
    if (each.backend() == text.substr(0, colon) && std::to_string(each.ordinal()) == digits) return each;
  }
  return std::nullopt;
}

/// What `choose` returns; nothing when it refused as it must, naming `text`.
template <class Choose>
std::optional<Device> chosen(std::string_view text, Choose choose) {
  try {
    return choose();
  } catch (const Error& error) {
    require(error.code() == Errc::invalid_argument, error.what());
    require(std::string_view(error.what()).find(text) != std::string_view::npos, "the message does not quote the text");
  }
  return std::nullopt;
}

void run_device(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  require(chosen(text.c_str(), [&] { return device(text); }) == named(text), "device() and the list disagree");

  const std::string variable = text.c_str();  // an environment has no zero bytes
  if (variable.empty()) return;
  ::setenv("WEIR_DEVICE", variable.c_str(), 1);
  const auto best = chosen(variable, [] { return best_device(); });
  ::unsetenv("WEIR_DEVICE");
  require(best == named(variable), "WEIR_DEVICE and the list disagree");
}

const Register registered("device", &run_device);

}  // namespace
}  // namespace weir::fuzz
