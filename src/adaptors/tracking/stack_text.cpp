// SPDX-License-Identifier: Apache-2.0
// Turns the addresses that tracking keeps into names.
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "weir/adaptors/tracking.hpp"

namespace weir {
namespace {

std::string hexadecimal(std::uintptr_t value) {
  std::string digits;
  do digits.insert(digits.begin(), "0123456789abcdef"[value % 16]);
  while ((value /= 16) != 0);
  return "0x" + digits;
}

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                    &std::free);
  return status == 0 && text ? text.get() : symbol;
}

// Return "weir::f(int)+0x12", or "module+0x1234" when there is no symbol, or the address when there is no module.
std::string name_of(void* return_address) {
  const auto address = reinterpret_cast<std::uintptr_t>(return_address);
  Dl_info info{};
  if (dladdr(return_address, &info) == 0) return hexadecimal(address);
  const auto offset = [&](const void* from) {
    return "+" + hexadecimal(address - reinterpret_cast<std::uintptr_t>(from));
  };
  if (info.dli_sname) return demangled(info.dli_sname) + offset(info.dli_saddr);
  const std::string_view path(info.dli_fname ? info.dli_fname : "?");
  return std::string(path.substr(path.rfind('/') + 1)) + offset(info.dli_fbase);
}

}  // namespace

std::string TrackedBuffer::to_string() const {
  std::string text = "buffer " + std::to_string(number) + ": " + std::to_string(bytes) +
                     " bytes, alignment " + std::to_string(alignment) + ", stream " + std::to_string(stream);
  const char* before = ", allocated at ";
  for (void* const address : stack) {
    text += before + name_of(address);
    before = " < ";
  }
  return text;
}

}  // namespace weir
