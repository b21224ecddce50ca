// SPDX-License-Identifier: Apache-2.0
// The files behind physical memory, which travel to other processes, and to other APIs.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "handles.hpp"
#include "world.hpp"

using namespace fake;

namespace {

std::vector<char> header;  // in front of memory that is exported, for a driver on the CPU that wants one

}  // namespace

namespace fake {

std::size_t begin_in_files() { return header.size(); }

int make_file(int device, std::size_t bytes, bool exportable, std::size_t& begin) {
  begin = exportable ? header.size() : 0;
  const int fd = memfd_create(("fakecuda" + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (fd < 0) return -1;
  bool made = ftruncate(fd, static_cast<off_t>(begin + bytes)) == 0;
  if (begin != 0) {
    const std::array<std::size_t, 2> sizes{begin + bytes, begin};
    std::memcpy(header.data(), sizes.data(), sizeof sizes);
    made = made && pwrite(fd, header.data(), begin, 0) == static_cast<ssize_t>(begin);
  }
  if (made) return fd;
  close(fd);
  return -1;
}

}  // namespace fake

extern "C" {

/// For tests: put in front of memory that is made to be exported what Mesa's CPU driver put in front of the memory in
/// `file`, with other sizes, so that it opens such memory too. -1: put nothing there again.
void fake_cuda_make_files_like(int file) {
  const Lock lock(lock_of_all());
  constexpr std::size_t page = 4096;  // what is mapped begins on one
  header.assign(file < 0 ? 0 : page, 0);
  if (file >= 0 && pread(file, header.data(), header.size(), 0) < 0) header.clear();
}

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
  const std::size_t begin = begin_in_files();
  *handle = add_handle({copy, static_cast<std::size_t>(status.st_size) - begin, device, true, true, 1, 0, begin});
  return CUDA_SUCCESS;
}

}  // extern "C"
