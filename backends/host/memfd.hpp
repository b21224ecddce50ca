// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files that live in memory, sealed so that nobody can take pages away from under a reader.

#include <cstddef>

#include "weir/error.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::host {

[[nodiscard]] std::size_t page_size() noexcept;

/// Make a memfd of `bytes` (whole pages), which is not sealed yet. Its memory is reserved at once, so that a later
/// touch cannot fail. Its mode lets nobody open it anew for writing, except processes that may change the mode. When
/// there is no memory, returns none and fills `shortage`. Throws for everything else (file descriptors, permissions).
[[nodiscard]] spi::UniqueFd make_memfd(std::size_t bytes, Shortage& shortage);

/// Seal a memfd for ever against resizing and, if not `writable`, against all writes but through the mappings that
/// there are.
void seal_memfd(int memfd, bool writable);

/// Open the memory of a memfd a second time, for reading: the kernel refuses every write and every writable mapping
/// through the file. Needs /proc. Throws what the kernel refuses.
[[nodiscard]] spi::UniqueFd open_for_reading(int memfd);

/// Throw corrupt_descriptor unless `fd` is a memfd of exactly `bytes`, sealed against shrinking and growing.
void check_memfd(int fd, std::size_t bytes);

/// Return what the kernel knows the memory of a memfd by. All files of one memory have it, those of no other memory do.
[[nodiscard]] spi::SegmentId identity_of(int memfd);

/// Call munmap; report a refusal.
void unmap(void* data, std::size_t bytes) noexcept;

/// A shared mapping of a whole file, unmapped on destruction unless released.
class Mapping {
 public:
  Mapping(int fd, std::size_t bytes, bool read_only) noexcept;
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  explicit operator bool() const noexcept { return data_ != nullptr; }
  [[nodiscard]] void* get() const noexcept { return data_; }
  void release() noexcept { data_ = nullptr; }

 private:
  void* data_;
  std::size_t bytes_;
};

}  // namespace weir::host
