// SPDX-License-Identifier: Apache-2.0
#include "modelled_driver.hpp"

#include <dlfcn.h>
#include <stdlib.h>

namespace weir::test {

void* find_in_model(const char* symbol) {
  // The second is beneath the first when calls are made to fail on their way to it.
  for (const char* variable : {"WEIR_CUDA_LIBRARY", "FAILING_CUDA_REAL"}) {
    const char* path = getenv(variable);
    void* library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : nullptr;
    if (!library) continue;
    void* found = dlsym(library, symbol);
    dlclose(library);
    if (found) return found;
  }
  return nullptr;
}

std::string take_violations() {
  const auto take = reinterpret_cast<std::size_t (*)(char*, std::size_t)>(find_in_model("fake_cuda_violations"));
  std::string text(4096, '\0');
  if (!take || take(text.data(), text.size()) == 0) return {};
  text.resize(text.find('\0'));
  return text;
}

}  // namespace weir::test
