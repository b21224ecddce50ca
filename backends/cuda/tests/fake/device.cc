// SPDX-License-Identifier: Apache-2.0
// Loading and devices: what is asked before there is any context.
#include "world.hpp"

#include <cstdio>
#include <cstring>
#include <sstream>

using namespace fake;

namespace {

int device_count() { return static_cast<int>(world().primaries.size()); }

bool lacks(CUdevice_attribute attribute) {
  const char* text = getenv("FAKE_CUDA_LACKS");
  std::istringstream list(text ? text : "");
  for (std::string one; std::getline(list, one, ',');) {
    if (atoi(one.c_str()) == static_cast<int>(attribute)) return true;
  }
  return false;
}

// Hexadecimal digits, with or without dashes.
void read_uuid(const char* text, char (&bytes)[16]) {
  std::string digits;
  for (; *text; ++text) {
    if (*text != '-') digits += *text;
  }
  for (std::size_t i = 0; i < sizeof bytes && 2 * i + 1 < digits.size(); ++i)
    bytes[i] = static_cast<char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned int) {
  const Lock lock(lock_of_all());
  if (!world().primaries.empty()) return CUDA_SUCCESS;
  read_failures();
  if (const auto refused = injected("cuInit")) return refused;
  for (int i = 0; i < number("FAKE_CUDA_DEVICES", 1); ++i) {
    auto* const context = new Context{};
    context->device = i;
    context->id = ++world().last_id;
    world().primaries.push_back(context);
    world().contexts.insert(context);
    made(Kind::context);
    world().default_pools.push_back(new Pool);
    world().default_pools.back()->device = i;
  }
  world().used.resize(world().primaries.size());
  std::atexit([] {
    const Lock ending(lock_of_all());
    world().gone_with_the_process = true;
  });
  return world().primaries.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
#define NAME(code) \
  case code: *text = #code; break
  switch (error) {
    NAME(CUDA_ERROR_OUT_OF_MEMORY);
    NAME(CUDA_ERROR_INVALID_VALUE);
    NAME(CUDA_ERROR_INVALID_HANDLE);
    NAME(CUDA_ERROR_INVALID_CONTEXT);
    NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    NAME(CUDA_ERROR_ECC_UNCORRECTABLE);
    NAME(CUDA_ERROR_ILLEGAL_ADDRESS);
    NAME(CUDA_ERROR_LAUNCH_FAILED);
    NAME(CUDA_ERROR_NOT_PERMITTED);
    NAME(CUDA_ERROR_NOT_SUPPORTED);
    NAME(CUDA_ERROR_OPERATING_SYSTEM);
    NAME(CUDA_ERROR_UNKNOWN);
    default: *text = "CUDA_ERROR"; break;
  }
#undef NAME
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorString(CUresult, const char** text) {
  *text = "a failure of the fake driver";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  ENTER_EVEN_AFTER_A_FAULT("cuDeviceGetCount");
  *count = device_count();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER_EVEN_AFTER_A_FAULT("cuDeviceGet");
  if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice) {
  ENTER_EVEN_AFTER_A_FAULT("cuDeviceGetName");
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  ENTER_EVEN_AFTER_A_FAULT("cuDeviceGetUuid");
  std::memset(uuid->bytes, 0x5a, sizeof uuid->bytes);
  if (const char* text = getenv("FAKE_CUDA_UUID")) read_uuid(text, uuid->bytes);
  uuid->bytes[15] = static_cast<char>(uuid->bytes[15] + device);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice) {
  ENTER_EVEN_AFTER_A_FAULT("cuDeviceTotalMem");
  *bytes = total_bytes;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  ENTER_EVEN_AFTER_A_FAULT("cuDeviceGetAttribute");
  *value = lacks(attribute) ? 0 : 1;
  return CUDA_SUCCESS;
}

}  // extern "C"
