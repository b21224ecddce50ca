// SPDX-License-Identifier: Apache-2.0
#include "base/loaded_code.hpp"

#include <dlfcn.h>
#include <link.h>

#include "weir/error.hpp"

namespace weir::detail {
namespace {

void pin() noexcept {
  Dl_info info;
  void* found = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&keep_code_loaded_now), &info, &found, RTLD_DL_LINKMAP) == 0) return;
  const char* const name = static_cast<link_map*>(found)->l_name;
  if (!name || !*name) return;  // the code is in the executable
  if (!dlopen(name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) report({{}, "loading of weir", dlerror()});
}

}  // namespace

void keep_code_loaded_now() noexcept {
  pin();
  code_stays_loaded.store(true, std::memory_order_release);  // only now: until then, others must do it themselves
}

}  // namespace weir::detail
