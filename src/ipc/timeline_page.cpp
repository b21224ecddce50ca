// SPDX-License-Identifier: Apache-2.0
#include "ipc/timeline_page.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <climits>
#include <ctime>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "base/reserved_file.hpp"
#include "ipc/file_pairs.hpp"
#include "weir/error.hpp"

#ifndef F_SEAL_FUTURE_WRITE  // in headers since glibc 2.31, in kernels since 5.1
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace weir::detail {
namespace {

constexpr char purpose[] = "timeline page";
constexpr int page_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

// A futex has 32 bits. The half of the word that changes with each value is the one to sleep on.
std::uint32_t* low_half(std::uint64_t* word) noexcept {
  constexpr std::ptrdiff_t place = std::endian::native == std::endian::little ? 0 : 1;
  return reinterpret_cast<std::uint32_t*>(word) + place;
}

// The flag for futexes of one process alone is absent, because the sleepers are in another one.
void wake(std::uint64_t* word) noexcept {
  (void)::syscall(SYS_futex, low_half(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t load(const std::uint64_t& word) noexcept {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

// The order matters: a device that goes on after a loss writes the word after the end is there.
PeerPage::State state_of(const std::uint64_t* words, PagePoint point) noexcept {
  const std::uint64_t value = load(words[point.word]), end = load(words[page_words + point.word]);
  if (end != 0 && point.value >= end) return PeerPage::State::given_up;
  return value >= point.value ? PeerPage::State::reached : PeerPage::State::pending;
}

[[noreturn]] void refuse(const std::string& why) { throw Error(Errc::corrupt_descriptor, "timeline page: " + why); }

std::uint64_t* map(int file, int access) noexcept {
  // MAP_POPULATE: nobody can take a page away that is there, because the seals forbid that, too.
  void* const data = ::mmap(nullptr, page_bytes, access, MAP_SHARED | MAP_POPULATE, file, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::uint64_t*>(data);
}

void unmap(std::uint64_t* words) noexcept {
  if (::munmap(words, page_bytes) != 0)
    report({{errno, std::generic_category()}, purpose, "munmap was refused; the page is leaked"});
}

}  // namespace

OwnPage::OwnPage() : process_(fork_generation) {
  spi::UniqueFd file(::memfd_create("weir timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail_descriptor(purpose, "memfd_create", errno);
  const auto [call, error] = reserve_file(file.get(), page_bytes);
  if (error != 0) fail_descriptor(purpose, call, error);
  // The last mapping that can write has to be there before the seal is.
  words_ = map(file.get(), PROT_READ | PROT_WRITE);
  if (!words_) fail_descriptor(purpose, "mmap", errno);
  if (::fcntl(file.get(), F_ADD_SEALS, page_seals | F_SEAL_SEAL) != 0) {
    const int refused = errno;
    unmap(words_);
    fail_descriptor(purpose, "fcntl(F_ADD_SEALS)", refused);
  }
  file_ = std::move(file);
}

OwnPage::~OwnPage() { unmap(words_); }

void OwnPage::reach(PagePoint point) noexcept {
  if (process_ != fork_generation) return;
  const std::atomic_ref word(words_[point.word]);
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (state_of(words_, point) == PeerPage::State::given_up || seen >= point.value) return;
  } while (!word.compare_exchange_weak(seen, point.value, std::memory_order_release, std::memory_order_relaxed));
  wake(&words_[point.word]);
}

void OwnPage::give_up(std::uint32_t word) noexcept {
  if (process_ != fork_generation) return;
  std::uint64_t none = 0;  // the first end stays: by a later one, a device may have gone on
  (void)std::atomic_ref(words_[page_words + word]).compare_exchange_strong(none, load(words_[word]) + 1);
  wake(&words_[word]);
}

void OwnPage::settle(PagePoint point) noexcept {
  if (process_ != fork_generation) return;
  if (!reached(point)) return give_up(point.word);
  wake(&words_[point.word]);
}

bool OwnPage::goes_on(PagePoint point) const noexcept {
  return reached(point) && load(words_[page_words + point.word]) == 0;
}

bool OwnPage::reached(PagePoint point) const noexcept { return state_of(words_, point) == PeerPage::State::reached; }

// The order of the questions matters: only the first one is answered at once for whatever a stranger sends (ADR 12).
PeerPage::PeerPage(spi::StrangerFd&& file) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0) refuse("the file is not a memfd: fcntl(F_GET_SEALS): " + std::generic_category().message(errno));
  if ((seals & page_seals) != page_seals)
    refuse("the memfd is not sealed against shrinking, growing and later writers");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_descriptor(purpose, "fstat", errno);
  if (status.st_size != static_cast<off_t>(page_bytes))
    refuse("the memfd has " + std::to_string(status.st_size) + " bytes, not " + std::to_string(page_bytes));
  words_ = map(file.get(), PROT_READ);
  if (!words_) fail_descriptor(purpose, "mmap", errno);
  (void)file.trust();  // nobody can block the close of a memfd
}

PeerPage::~PeerPage() { unmap(const_cast<std::uint64_t*>(words_)); }

PeerPage::State PeerPage::look(PagePoint point) const noexcept { return state_of(words_, point); }

void PeerPage::sleep(PagePoint point, std::chrono::nanoseconds most) const noexcept {
  const std::uint64_t seen = load(words_[point.word]);
  if (look(point) != State::pending) return;
  constexpr std::chrono::nanoseconds second{std::chrono::seconds{1}};
  const timespec limit{static_cast<time_t>(most / second), static_cast<long>((most % second).count())};
  auto* const half = low_half(const_cast<std::uint64_t*>(words_ + point.word));
  (void)::syscall(SYS_futex, half, FUTEX_WAIT, static_cast<std::uint32_t>(seen), &limit, nullptr, 0);
}

}  // namespace weir::detail
