// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ending.hpp"

namespace weir::cuda {
namespace {

// Nothing here has a destructor, so nothing is torn down at exit.
const Driver* loaded = nullptr;
std::atomic<bool> forked{false};

using VersionOf = CUresult(CUDAAPI*)(int*);
using Finder = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string result_text(const Driver& table, CUresult result) {
  const char* name = nullptr;
  const char* meaning = nullptr;
  table.GetErrorName(result, &name);
  table.GetErrorString(result, &meaning);
  return std::string(name ? name : "unknown error") + " (" + std::to_string(static_cast<int>(result)) + ")" +
         (meaning ? std::string(": ") + meaning : "");
}

bool find_symbols(Finder find, Driver& table, std::string& reason) {
  const auto one = [&](auto& slot, const char* name, int version) {
    void* address = nullptr;
    const auto result = find(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
    if (result == CUDA_SUCCESS && address) {
      slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(address);
      return true;
    }
    reason = "the CUDA driver " + version_text(table.version) + " has no " + name + " of CUDA " +
             version_text(version) + "; install a newer NVIDIA driver";
    return false;
  };
#define WEIR_CUDA_SYMBOL(name, version) \
  if (!one(table.name, "cu" #name, version)) return false;
#include "symbols.inc"
#undef WEIR_CUDA_SYMBOL
  if (!one(table.MemPrefetchAsync, "cuMemPrefetchAsync", 8000)) return false;
  if (!one(table.StreamGetCaptureInfo, "cuStreamGetCaptureInfo", 11030)) return false;
  if (!one(table.StreamGetGreenCtx, "cuStreamGetGreenCtx", 12040)) reason.clear();
  if (!one(table.CtxRecordEvent, "cuCtxRecordEvent", 12050)) reason.clear();
  return true;
}

const Driver* load(std::string& reason) {
  const char* wanted = std::getenv("WEIR_CUDA_LIBRARY");
  const char* path = wanted && *wanted ? wanted : "libcuda.so.1";
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    reason = "the CUDA driver cannot be loaded (" + std::string(why ? why : path) + "); install the NVIDIA driver";
    return nullptr;
  }
  // The library stays loaded even if it is refused below: drivers do not like to be unloaded.
  static Driver table;
  const auto version_of = reinterpret_cast<VersionOf>(dlsym(library, "cuDriverGetVersion"));
  if (!version_of || version_of(&table.version) != CUDA_SUCCESS) {
    reason = std::string(path) + " is not a CUDA driver: it has no cuDriverGetVersion";
    return nullptr;
  }
  const auto find = reinterpret_cast<Finder>(dlsym(library, "cuGetProcAddress_v2"));
  if (table.version < oldest_driver || !find) {
    reason = "the NVIDIA driver supports CUDA " + version_text(table.version) + "; " + version_text(oldest_driver) +
             " or newer is needed";
    return nullptr;
  }
  if (!find_symbols(find, table, reason)) return nullptr;
  if (const auto result = table.Init(0); result != CUDA_SUCCESS) {
    reason = result == CUDA_ERROR_NO_DEVICE ? "the CUDA driver is there, but no GPU that it can use"
                                            : "cuInit failed: " + result_text(table, result);
    return nullptr;
  }
  pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  watch_end_of_process();
  return &table;
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …"
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos) return word;
  }
  return {};
}

}  // namespace

const Driver* load_driver(std::string& reason) {
  static const auto& outcome = *[] {
    auto* why = new std::string;
    loaded = load(*why);
    return why;
  }();
  if (!loaded) reason = outcome;
  return loaded;
}

const Driver& driver() noexcept { return *loaded; }
const Driver* driver_if_loaded() noexcept { return loaded; }

std::string describe_driver() {
  const std::string module = kernel_module_version();
  return "CUDA driver " + version_text(driver().version) + (module.empty() ? "" : " (" + module + ")");
}

bool forked_after_load() noexcept { return forked.load(std::memory_order_relaxed); }

}  // namespace weir::cuda
