// SPDX-License-Identifier: Apache-2.0
// Handles that travel to other processes as file descriptors.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "handles.hpp"
#include "world.hpp"

using namespace fake;

extern "C" {

CUresult CUDAAPI cuMemExportToShareableHandle(void* fd, CUmemGenericAllocationHandle id, CUmemAllocationHandleType type,
                                              unsigned long long) {
  ENTER("cuMemExportToShareableHandle");
  const Handle* const handle = handle_of(call, id);
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (!handle->exportable || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return violation(call, "of a handle that was not made to be exported so");
  }
  const int copy = dup(handle->fd);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(fd) = copy;
  return CUDA_SUCCESS;
}

/// What the file is cannot be trusted: a wrong one is the sender's mistake, not the program's.
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                                CUmemAllocationHandleType type) {
  ENTER("cuMemImportFromShareableHandle");
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return violation(call, "of a type that is not a file", CUDA_ERROR_NOT_SUPPORTED);
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  char name[64] = {};
  struct stat status;
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) < 0 ||
      !std::strstr(name, "fakecuda") || fstat(fd, &status) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  const int device = atoi(std::strstr(name, "fakecuda") + 8);
  *handle = add_handle({copy, static_cast<std::size_t>(status.st_size), device, true, true, 1, 0});
  return CUDA_SUCCESS;
}

}  // extern "C"
