// SPDX-License-Identifier: Apache-2.0
// Fills by the host: every pattern and length, and that they never read what they fill, which may be write-combined.
#include "copy/host_bytes.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

namespace weir::detail {
namespace {

/// Memory of a test.
struct Plain final : spi::Segment {
  Plain(std::byte* at, std::size_t bytes) {
    host = at;
    size = bytes;
  }
  void after_host_write(std::size_t offset, std::size_t bytes) override {
    written_from = offset;
    written = bytes;
  }
  std::size_t written_from = 0, written = 0;
};

std::byte byte_of(std::uint64_t pattern, std::size_t period, std::size_t at) {
  return static_cast<std::byte>(pattern >> at % period * 8);
}

TEST(HostFills, EveryPatternAndLength) {
  constexpr std::uint64_t pattern = 0x8877665544332211;
  std::vector<std::byte> memory(20'000);
  auto segment = spi::Ref<Plain>::adopt(new Plain(memory.data(), memory.size()));
  for (const std::uint32_t period : {1U, 2U, 4U, 8U}) {
    for (const std::size_t length : {8U, 16U, 24U, 4088U, 4096U, 4104U, 8192U, 12'296U, 16'384U}) {
      std::fill(memory.begin(), memory.end(), std::byte{0xee});
      fill_host({segment.get(), 3}, length, pattern, period);
      for (std::size_t i = 0; i < memory.size(); ++i) {
        const bool inside = i >= 3 && i < 3 + length;
        ASSERT_EQ(memory[i], inside ? byte_of(pattern, period, i - 3) : std::byte{0xee})
            << "byte " << i << " of " << length << " with a pattern of " << period;
      }
      EXPECT_EQ(segment->written_from, 3U);
      EXPECT_EQ(segment->written, length);
    }
  }
}

// Rows get whole blocks, and the last of each what is left. What a device has to see is each row by itself.
TEST(HostFills, RowsOfEverySize) {
  std::vector<std::byte> block(12);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i % 6 + 1);
  for (const bool coherent : {true, false}) {
    for (const std::size_t row : {12U, 18U, 24U, 42U}) {
      std::vector<std::byte> memory(600, std::byte{0xee});
      auto segment = spi::Ref<Plain>::adopt(new Plain(memory.data(), memory.size()));
      segment->host_coherent = coherent;
      const spi::Region region{row, {{3, 150, 0}, {2, 60, 0}}};
      fill_host({segment.get(), 7}, region, block);
      for (std::size_t i = 0; i < memory.size(); ++i) {
        const std::size_t from_first = i - 7, in_plane = from_first % 150, in_row = in_plane % 60;
        const bool inside = i >= 7 && from_first < 450 && in_plane < 120 && in_row < row;
        ASSERT_EQ(memory[i], inside ? block[in_row % 12] : std::byte{0xee}) << "byte " << i << ", rows of " << row;
      }
      if (!coherent) {
        EXPECT_EQ(segment->written_from, 7U + 2 * 150 + 60) << "the last row";
        EXPECT_EQ(segment->written, row);
      }
    }
  }
}

#if defined(__x86_64__)

// Pages that nobody may touch; each touch is noted, and opens its page alone.
struct Watched {
  static constexpr std::size_t pages = 8;
  static inline std::byte* begin = nullptr;
  static inline std::size_t page = 0;
  static inline volatile sig_atomic_t reads = 0, writes = 0;

  static void touched(int, siginfo_t* info, void* context) {
    constexpr greg_t was_write = 2;  // of the page fault's error code
    auto* at = static_cast<std::byte*>(info->si_addr);
    if (at < begin || at >= begin + pages * page) _exit(1);
    const auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const bool write = (registers[REG_ERR] & was_write) != 0;
    auto& count = write ? writes : reads;
    count = count + 1;
    std::byte* const its_page = begin + static_cast<std::size_t>(at - begin) / page * page;
    mprotect(begin, pages * page, write ? PROT_NONE : PROT_READ | PROT_WRITE);  // one read says enough
    if (write) mprotect(its_page, page, PROT_READ | PROT_WRITE);
  }
};

TEST(HostFills, NeverReadWhatTheyFill) {
  Watched::page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = Watched::pages * Watched::page;
  void* mapped = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  Watched::begin = static_cast<std::byte*>(mapped);
  struct sigaction action {
  }, before{};
  action.sa_sigaction = &Watched::touched;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  auto segment = spi::Ref<Plain>::adopt(new Plain(Watched::begin, bytes));
  for (const std::uint32_t period : {1U, 2U, 4U, 8U}) {
    Watched::reads = 0;
    Watched::writes = 0;
    ASSERT_EQ(mprotect(mapped, bytes, PROT_NONE), 0);
    fill_host({segment.get(), 0}, bytes, 0x8877665544332211, period);
    EXPECT_EQ(Watched::reads, 0) << "pattern of " << period;
    EXPECT_GE(Watched::writes, static_cast<int>(Watched::pages));
  }
  sigaction(SIGSEGV, &before, nullptr);
  munmap(mapped, bytes);
}

#endif

}  // namespace
}  // namespace weir::detail
