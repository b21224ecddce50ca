// SPDX-License-Identifier: Apache-2.0
// Opaque file descriptors, by which other processes and CUDA open memory, and Vulkan opens theirs.
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>
#include <system_error>

#include "device.hpp"
#include "errors.hpp"
#include "logical.hpp"
#include "segment.hpp"
#include "weir/error.hpp"

namespace weir::vulkan {
namespace {

// For a file that may be a stranger's: take what the kernel has at hand, and do not ask the stranger's file system.
constexpr int at_hand = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;

// Return whether `a` and `b` are the same open file. A closed number names no file.
bool same_file(int a, int b) noexcept {
  const long self = getpid();
  if (const long order = syscall(SYS_kcmp, self, self, KCMP_FILE, a, b); order >= 0) return order == 0;
  struct statx first, second;
  return statx(a, "", at_hand, STATX_INO, &first) == 0 && statx(b, "", at_hand, STATX_INO, &second) == 0 &&
         first.stx_dev_major == second.stx_dev_major && first.stx_dev_minor == second.stx_dev_minor &&
         first.stx_ino == second.stx_ino;
}

// Return whether the file could be memory of the driver. CPU drivers keep memory in a memfd and read its beginning. On
// a stranger's pipe or socket that read blocks for as long as the stranger likes. GPU drivers ask by ioctl.
bool could_be_memory(const spi::StrangerFd& fd, bool of_gpu) noexcept {
  if (!of_gpu) return fcntl(fd.get(), F_GET_SEALS) >= 0;
  struct statx status;
  if (statx(fd.get(), "", at_hand, STATX_TYPE, &status) != 0) return false;
  const auto mode = status.stx_mode;
  return !S_ISSOCK(mode) && !S_ISFIFO(mode) && !S_ISDIR(mode) && !S_ISBLK(mode);
}

// Open a memfd again. CPU drivers read a file from its current position, which all processes have in common that were
// sent the file. Return none where the file can only be used as it came. Whoever has a lease on it (fcntl) holds nobody
// up.
spi::UniqueFd opened_again(const spi::StrangerFd& file) {
  const int access = fcntl(file.get(), F_GETFL) & O_ACCMODE;
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  spi::UniqueFd again(::open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK));
  if (!again && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    const std::error_code code(errno, std::generic_category());
    throw Error(code, "cannot open memory of another process: open: " + code.message() +
                          (code.value() == EMFILE ? "; raise the limit (ulimit -n)" : ""));
  }
  return again;
}

// By the specification, a failed import leaves the descriptor open; some drivers close it. So the driver gets a
// duplicate, which is closed here only if its number still names the same file. Imports take turns, because another
// import could get the same number for the same file in between.
class Offer {
 public:
  /// `memory` is where the driver puts the imported memory. Once it is there, the driver owns the duplicate.
  Offer(const spi::StrangerFd& original, bool of_gpu, const VkDeviceMemory& memory)
      : again_(of_gpu ? spi::UniqueFd() : opened_again(original)),
        lock_(turn()),
        original_(again_ ? again_.get() : original.get()),
        copy_(again_ ? again_.duplicate(above_exports) : original.duplicate(above_exports).trust()),
        memory_(memory) {}
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;
  ~Offer() {
    const bool taken = memory_ != VK_NULL_HANDLE;
    if (taken || !same_file(original_, copy_.get())) (void)copy_.trust().release();
  }
  [[nodiscard]] int fd() const noexcept { return copy_.get(); }

 private:
  // The validation layer remembers exported files by their numbers, even when a number is closed and names another file
  // by now. So duplicates get numbers from this one on.
  static constexpr int above_exports = 400;

  static std::mutex& turn() {
    static auto& mutex = *new std::mutex;
    return mutex;
  }
  const spi::UniqueFd again_;
  std::unique_lock<std::mutex> lock_;
  int original_;
  spi::StrangerFd copy_;
  const VkDeviceMemory& memory_;
};

}  // namespace

spi::UniqueFd Memory::export_fd() const {
  if (!exportable) throw Error(Errc::unsupported, logical.name() + ": this memory was not made exportable");
  const NeededCall call(Doing::share);
  VkMemoryGetFdInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
  info.memory = memory;
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  int fd = -1;
  check(logical.fn.vkGetMemoryFdKHR(logical.handle, &info, &fd), "vkGetMemoryFdKHR", logical.name());
  spi::UniqueFd result(fd);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return result;
}

Memory* Memory::import(Logical& logical, MemoryKind kind, std::size_t bytes, bool read_only, spi::StrangerFd& fd) {
  const auto* info = logical.device.find(kind);
  if (!info || !info->exportable)
    throw Error(Errc::unsupported,
                logical.name() + " cannot open vulkan." + std::string(to_string(kind)) + " memory of another process");
  if (bytes == 0 || bytes % shared_granularity != 0)
    throw Error(Errc::corrupt_descriptor,
                logical.name() + ": no Vulkan segment has " + std::to_string(bytes) + " bytes");
  if (!could_be_memory(fd, logical.device.is_gpu))
    throw Error(Errc::corrupt_descriptor, logical.name() + ": the file descriptor is not one of Vulkan memory: " +
                                              (logical.device.is_gpu ? "statx" : "fcntl(F_GET_SEALS)"));
  const NeededCall call(Doing::share);
  auto made = spi::Ref<Memory>::adopt(new Memory(logical, kind, bytes));
  made->imported = made->shared = true;
  made->read_only = read_only;
  Shortage shortage;
  const Offer offer(fd, logical.device.is_gpu, made->memory);
  const VkResult result = made->build(offer.fd(), shortage);
  if (bytes > shortage.limit)
    throw Error(Errc::corrupt_descriptor, logical.name() + ": a segment of " + std::to_string(bytes) +
                                              " bytes is larger than any here, which has at most " +
                                              std::to_string(shortage.limit));
  const bool refused = made->buffer != VK_NULL_HANDLE && made->memory == VK_NULL_HANDLE;
  if (refused && result == VK_ERROR_OUT_OF_DEVICE_MEMORY)  // drivers say so of a file that holds less than claimed
    throw Error(Errc::corrupt_descriptor, logical.name() + ": a segment size of " + std::to_string(bytes) +
                                              " bytes was refused by vkAllocateMemory as out of memory; the memory "
                                              "that came is smaller, or there is no room for it here");
  if (result < 0)
    fail(result, shortage.call.empty() ? "import" : shortage.call.c_str(),
         logical.name() + ": opening " + std::to_string(bytes) + " bytes of another process");
  (void)fd.trust();
  return made.detach();
}

// The specification provides only for files that Vulkan made. NVIDIA's driver opens CUDA's, too: it wants the size of
// the whole allocation, and a memory type that lies in the GPU.
Memory* Memory::view(Logical& logical, const spi::Segment& of, spi::ExportedHandle handle) {
  const NeededCall call(Doing::share);
  auto made = spi::Ref<Memory>::adopt(new Memory(logical, MemoryKind::device, of.size));
  made->shared = true;
  made->read_only = of.read_only;
  made->opened_ = handle.allocation;
  const spi::StrangerFd file(std::move(handle.fd));
  Shortage shortage;
  VkResult result;
  {
    const Offer offer(file, logical.device.is_gpu, made->memory);
    result = made->build(offer.fd(), shortage);
  }
  const std::string asks =
      "view of " + std::to_string(of.size) + " bytes of " + of.device->describe() + " on " + logical.name();
  if (result == VK_ERROR_INVALID_EXTERNAL_HANDLE)
    throw Error(Errc::unsupported, asks +
                                       ": vkAllocateMemory failed with VK_ERROR_INVALID_EXTERNAL_HANDLE: this driver " +
                                       "does not open memory of CUDA; copy it to a buffer of the device");
  if (result < 0) fail(result, shortage.call.empty() ? "import" : shortage.call.c_str(), asks);
  made->kind = MemoryKind::external;
  return made.detach();
}

}  // namespace weir::vulkan
