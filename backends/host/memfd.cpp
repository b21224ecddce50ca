// SPDX-License-Identifier: Apache-2.0
#include "memfd.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/reserved_file.hpp"

namespace weir::host {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void fail(const char* call, int error) {
  const std::error_code code(error, std::generic_category());
  throw Error(code, std::string("shared host memory: ") + call + ": " + code.message() +
                        (error == EMFILE ? "; raise the limit of open files (ulimit -n)" : ""));
}

bool exhausted(int error) { return error == ENOMEM || error == ENOSPC || error == EFBIG; }

[[noreturn]] void corrupt(const std::string& why) {
  throw Error(Errc::corrupt_descriptor, "shared host memory: " + why);
}

}  // namespace

std::size_t page_size() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

spi::UniqueFd make_memfd(std::size_t bytes, Shortage& shortage) {
  spi::UniqueFd file(::memfd_create("weir", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail("memfd_create", errno);
  const auto [call, error] = detail::reserve_file(file.get(), bytes);
  if (error != 0) {
    if (!exhausted(error)) fail(call, error);
    shortage.call = call;
    shortage.native = {error, std::generic_category()};
    return {};
  }
  // Without this, a process that gets a file for reading could open it anew for writing, by its name in /proc.
  if (::fchmod(file.get(), S_IRUSR | S_IRGRP | S_IROTH) != 0) fail("fchmod", errno);
  return file;
}

void seal_memfd(int memfd, bool writable) {
  const int seals = size_seals | F_SEAL_SEAL | (writable ? 0 : F_SEAL_FUTURE_WRITE);
  if (::fcntl(memfd, F_ADD_SEALS, seals) != 0) fail("fcntl(F_ADD_SEALS)", errno);
}

spi::UniqueFd open_for_reading(int memfd) {
  const std::string name = "/proc/self/fd/" + std::to_string(memfd);
  // A process that made the file can hold a lease on it (F_SETLEASE), which would make this wait for that process.
  spi::UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail(("open of " + name + " for a process that may only read").c_str(), errno);
  return file;
}

void check_memfd(int fd, std::size_t bytes) {
  // This comes first, because only this call fails at once for whatever a stranger sends. All other calls may ask a
  // file system of the stranger's.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    corrupt("the file descriptor is not a memfd: fcntl(F_GET_SEALS): " + std::generic_category().message(errno));
  }
  if ((seals & size_seals) != size_seals) {
    const std::string form = (seals & size_seals) == F_SEAL_SHRINK ? "growing"
                             : (seals & size_seals) == F_SEAL_GROW ? "shrinking"
                                                                   : "shrinking and growing";
    const bool never = (seals & F_SEAL_SEAL) != 0;
    corrupt("the memfd is not sealed against " + form + (never ? ", and takes no further seals" : ""));
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail("fstat", errno);
  if (static_cast<std::uint64_t>(status.st_size) != bytes) {
    corrupt("the memfd has " + std::to_string(status.st_size) + " bytes, the descriptor says " + std::to_string(bytes));
  }
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) fail("fstatfs", errno);
  if (static_cast<std::uint32_t>(system.f_type) == HUGETLBFS_MAGIC) {
    corrupt("the memfd consists of huge pages, of which a process that reads it may find none left");
  }
  // Whoever touches a page that the exporter has not reserved pays for it.
  const std::uint64_t reserved = static_cast<std::uint64_t>(status.st_blocks) * 512;
  if (reserved < bytes) {
    corrupt("the memfd has " + std::to_string(bytes) + " bytes, but its sender has reserved only " +
            std::to_string(reserved) + " of them");
  }
}

spi::SegmentId identity_of(int memfd) {
  struct stat status {};
  if (::fstat(memfd, &status) != 0) fail("fstat", errno);
  return {status.st_dev, status.st_ino};
}

void unmap(void* data, std::size_t bytes) noexcept {
  if (::munmap(data, bytes) != 0) {
    report({{errno, std::generic_category()},
            "release of shared host memory",
            "munmap was refused; the memory is leaked"});
  }
}

Mapping::Mapping(int fd, std::size_t bytes, bool read_only) noexcept : data_(nullptr), bytes_(bytes) {
  void* data = ::mmap(nullptr, bytes, read_only ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data != MAP_FAILED) data_ = data;
}

Mapping::~Mapping() {
  if (data_) unmap(data_, bytes_);
}

}  // namespace weir::host
