// SPDX-License-Identifier: Apache-2.0
#include "judged_vulkan.hpp"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <string_view>

namespace weir::test {

#ifdef WEIR_JUDGED_VULKAN

void choose_judged_vulkan() {
  const char* wanted = getenv("WEIR_VULKAN_JUDGE");
  if ((wanted && std::string_view(wanted) == "0") || access(WEIR_JUDGED_VULKAN, R_OK) != 0) return;
  setenv("WEIR_VULKAN_LIBRARY", WEIR_JUDGED_VULKAN, 0);
  setenv("FAILING_VULKAN_REAL", WEIR_JUDGED_VULKAN, 0);  // behind the driver whose calls fail (tests/failures)
  setenv("JUDGED_VULKAN_KEEPER", std::to_string(getpid()).c_str(), 1);
}

std::string judged_vulkan() {
  void* library = dlopen(WEIR_JUDGED_VULKAN, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!library) return {};
  dlclose(library);
  return WEIR_JUDGED_VULKAN;
}

std::string take_judgements() {
  void* library = dlopen(WEIR_JUDGED_VULKAN, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!library) return {};
  const auto take = reinterpret_cast<std::size_t (*)(char*, std::size_t)>(dlsym(library, "judged_vulkan_violations"));
  dlclose(library);
  std::string text(8192, '\0');
  if (!take || take(text.data(), text.size()) == 0) return {};
  text.resize(text.find('\0'));
  return text;
}

#else

void choose_judged_vulkan() {}
std::string judged_vulkan() { return {}; }
std::string take_judgements() { return {}; }

#endif

}  // namespace weir::test
