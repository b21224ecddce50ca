// SPDX-License-Identifier: Apache-2.0
// cuda_question_child <question>: asks the driver what only hardware can answer, in a process of its own, because the
// answer may be a fault. Says "refused <code>" (of the call), "faulted <code>" (of the work), "right" or "wrong".
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "../native.hpp"
#include "spawn.hpp"

namespace weir::cuda_test {
namespace {

constexpr std::size_t size = std::size_t{1} << 20U;

void say(const std::string& line) { test::write_line(test::Child::socket_in_child, line); }
std::string numbered(const char* what, CUresult code) { return what + (" " + std::to_string(static_cast<int>(code))); }

bool must(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) say("failed " + numbered(call, result));
  return result == CUDA_SUCCESS;
}

/// Memory of a device's primary context, of one kind, and the same amount on the host.
struct Place {
  CUdeviceptr device = 0;
  void* host = nullptr;
};

bool make(Place& place, int ordinal, std::string_view kind) {
  const Current current(primary(ordinal));
  if (!must(api().MemHostAlloc(&place.host, size, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc")) return false;
  if (kind == "device") return must(api().MemAlloc(&place.device, size), "cuMemAlloc");
  if (kind == "async") {
    return must(api().MemAllocAsync(&place.device, size, CU_STREAM_LEGACY), "cuMemAllocAsync") &&
           must(api().StreamSynchronize(CU_STREAM_LEGACY), "cuStreamSynchronize");
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  std::size_t step = 0;
  CUmemGenericAllocationHandle handle = 0;
  return must(api().MemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "granularity") &&
         must(api().MemCreate(&handle, step, &properties, 0), "cuMemCreate") &&
         must(api().MemAddressReserve(&place.device, step, 0, 0, 0), "cuMemAddressReserve") &&
         must(api().MemMap(place.device, step, 0, handle, 0), "cuMemMap") &&
         must(api().MemSetAccess(place.device, step, &access, 1), "cuMemSetAccess");
}

/// The work was put on `stream`, as `result` says: what came of it. All bytes of the memory should be 7.
void judge(CUresult result, CUstream stream, const Place& place, int ordinal) {
  if (result != CUDA_SUCCESS) return say(numbered("refused", result));
  if (const auto end = api().StreamSynchronize(stream); end != CUDA_SUCCESS) return say(numbered("faulted", end));
  const Current current(primary(ordinal));
  const auto host = reinterpret_cast<CUdeviceptr>(place.host);
  auto* const bytes = static_cast<const unsigned char*>(place.host);
  const auto read = api().MemcpyAsync(host, place.device, size, CU_STREAM_LEGACY);
  if (read != CUDA_SUCCESS || api().StreamSynchronize(CU_STREAM_LEGACY) != CUDA_SUCCESS) {
    return say(numbered("faulted", read));
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (bytes[i] != 7) return say("wrong");
  }
  say("right");
}

void ask(std::string_view operation, std::string_view where, std::string_view kind) {
  const int ordinal = where == "device" ? 1 : 0;
  Place place, source;
  if (!make(place, ordinal, kind) || !make(source, ordinal, kind)) return;
  {
    const Current current(primary(ordinal));
    for (std::size_t i = 0; i < size; ++i) static_cast<unsigned char*>(source.host)[i] = 7;
    const auto host = reinterpret_cast<CUdeviceptr>(source.host);
    if (!must(api().MemcpyAsync(source.device, host, size, CU_STREAM_LEGACY), "cuMemcpyAsync") ||
        !must(api().StreamSynchronize(CU_STREAM_LEGACY), "cuStreamSynchronize")) {
      return;
    }
  }
  auto& context = *new OtherContext;  // never ended: the answer may be a fault
  const CUcontext asking = where == "device" ? primary(0) : context.get();
  const auto& stream = *new NativeStream(asking);
  const Current current(asking);
  const auto host = reinterpret_cast<CUdeviceptr>(source.host);
  if (operation == "fill") {
    judge(api().MemsetD8Async(place.device, 7, size, stream.get()), stream.get(), place, ordinal);
  } else if (operation == "copy") {
    judge(api().MemcpyAsync(place.device, source.device, size, stream.get()), stream.get(), place, ordinal);
  } else {
    judge(api().MemcpyAsync(place.device, host, size, stream.get()), stream.get(), place, ordinal);
  }
}

}  // namespace
}  // namespace weir::cuda_test

int main(int argc, char** argv) {
  if (argc != 4 || weir::devices().empty()) return 2;  // which loads the driver
  weir::cuda_test::ask(argv[1], argv[2], argv[3]);
  _exit(0);  // whatever the driver thinks of its state
}
