// SPDX-License-Identifier: Apache-2.0
// Memory of other APIs, imported by an opaque file descriptor. The one that is known here is that of Mesa's CPU
// drivers: a memfd in front of whose memory stands a header, {bytes of the file, offset of the memory, …}.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <map>

#include "world.hpp"

using namespace fake;

namespace {

struct External {
  int fd;  // the driver's
  int device;
  std::size_t file, begin, size;
  ino_t node;
  std::vector<CUdeviceptr> mapped;
};

std::map<CUexternalMemory, External>& imports() {
  static auto& all = *new std::map<CUexternalMemory, External>;
  return all;
}

bool dedicated = false;  // what the exporter's next memory is

// What the file says of itself; false when it is none of theirs.
bool read_header(int fd, External& import) {
  struct stat status;
  std::array<std::size_t, 2> header{};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (pread(fd, header.data(), sizeof header, 0) != sizeof header) return false;
  import.file = static_cast<std::size_t>(status.st_size);
  import.node = status.st_ino;
  import.begin = header[1];
  return header[0] == import.file && import.begin >= sizeof header && import.begin < import.file;
}

External* find(const char* call, CUexternalMemory handle) {
  const auto found = imports().find(handle);
  if (found != imports().end()) return &found->second;
  violation(call, "not an import, or destroyed", CUDA_ERROR_INVALID_HANDLE);
  return nullptr;
}

}  // namespace

namespace fake {

std::size_t live_imports() { return imports().size(); }

void unmap_external(const Memory& memory) {
  const auto found = imports().find(memory.external);
  if (found != imports().end()) std::erase(found->second.mapped, memory.address);
}

}  // namespace fake

extern "C" {

/// For tests: whether the memory that is imported from now on was allocated for one object of the exporter.
void fake_cuda_expect_dedicated(int value) {
  const Lock lock(lock_of_all());
  dedicated = value != 0;
}
/// For tests: imports that are not destroyed.
std::size_t fake_cuda_live_imports() {
  const Lock lock(lock_of_all());
  return live_imports();
}

/// Takes the descriptor if it succeeds, and else leaves it to the caller.
CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory* made_here, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* wanted) {
  ENTER_IN_CONTEXT("cuImportExternalMemory");
  UNSAFE();
  if (wanted->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
    return violation(call, "of a type that is not a file", CUDA_ERROR_NOT_SUPPORTED);
  External import{wanted->handle.fd, here().current.back()->device, 0, 0, wanted->size, 0, {}};
  if (!read_header(import.fd, import)) return violation(call, "the file is no memory of a driver");
  // Behind the memory, Mesa leaves at most what it needed to align it.
  constexpr std::size_t slack = 2048;
  const std::size_t there = import.file - import.begin;
  if (wanted->size > there || there - wanted->size > slack) {
    return violation(call, std::to_string(wanted->size) + " bytes are not the whole allocation of " +
                               std::to_string(there) + " or a little less");
  }
  const bool says_dedicated = (wanted->flags & CUDA_EXTERNAL_MEMORY_DEDICATED) != 0;
  if (says_dedicated != dedicated || (wanted->flags & ~CUDA_EXTERNAL_MEMORY_DEDICATED) != 0)
    return violation(call, dedicated ? "dedicated memory without its flag" : "the flag of dedicated memory without it");
  *made_here = reinterpret_cast<CUexternalMemory>(++world().last_id);
  imports()[*made_here] = import;
  made(Kind::import);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuExternalMemoryGetMappedBuffer(CUdeviceptr* address, CUexternalMemory handle,
                                                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* wanted) {
  ENTER_IN_CONTEXT("cuExternalMemoryGetMappedBuffer");
  UNSAFE();
  External* const import = find(call, handle);
  if (!import) return CUDA_ERROR_INVALID_HANDLE;
  if (wanted->flags != 0 || wanted->size == 0 || wanted->offset > import->size ||
      wanted->size > import->size - wanted->offset)
    return violation(call, "the range leaves the imported memory");
  void* const pages = mmap(nullptr, import->file, PROT_READ | PROT_WRITE, MAP_SHARED, import->fd, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  auto memory = std::make_shared<Memory>();
  memory->pages = pages;
  memory->pages_size = import->file;
  *address = memory->address = reinterpret_cast<CUdeviceptr>(pages) + import->begin + wanted->offset;
  memory->size = wanted->size;
  memory->device = import->device;
  memory->external = handle;
  auto& gone = world().gone;
  gone.erase(gone.lower_bound(*address), gone.lower_bound(*address + wanted->size));
  import->mapped.push_back(*address);
  world().allocations[*address] = std::move(memory);
  made(Kind::allocation);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory handle) {
  ENTER("cuDestroyExternalMemory");
  External* const import = find(call, handle);
  if (!import) return CUDA_ERROR_INVALID_HANDLE;
  if (!import->mapped.empty()) return violation(call, "memory of it is still mapped at " + hex(import->mapped.front()));
  struct stat status;
  if (fstat(import->fd, &status) != 0 || status.st_ino != import->node)
    return violation(call, "the descriptor is closed, and it was the driver's");
  close(import->fd);
  imports().erase(handle);
  ended(Kind::import);
  return CUDA_SUCCESS;
}

}  // extern "C"
