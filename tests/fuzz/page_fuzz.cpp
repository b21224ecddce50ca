// SPDX-License-Identifier: Apache-2.0
// Timeline pages, as a peer may send and write them: any file is refused, or is memory that can be read without an end
// under the reader; and whatever stands in it, a point is what its word says at that moment. Input: the file, or a page
// of this process; then words that are written, each with a point that is looked for.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "input.hpp"
#include "ipc/timeline_page.hpp"
#include "stranger_files.hpp"
#include "target.hpp"
#include "weir/error.hpp"

namespace weir::fuzz {
namespace {

using detail::page_bytes;
using detail::page_values;
using detail::page_words;
using detail::PagePoint;
using detail::PeerPage;
using State = PeerPage::State;

constexpr int right_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/// A page that nobody keeps from anything.
class Written {
 public:
  Written() : file_(::memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    require(::ftruncate(file_.get(), page_bytes) == 0, "no page");
    void* const data = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    require(data != MAP_FAILED, "no mapping of the page");
    words_ = static_cast<std::uint64_t*>(data);
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  ~Written() { (void)::munmap(words_, page_bytes); }
  void seal(int seals) { (void)::fcntl(file_.get(), F_ADD_SEALS, seals); }
  [[nodiscard]] spi::UniqueFd file() const { return file_.duplicate(); }
  void write(std::uint32_t word, std::uint64_t value) { std::atomic_ref(words_[word]).store(value); }

 private:
  spi::UniqueFd file_;
  std::uint64_t* words_ = nullptr;
};

State expected(std::uint64_t word, std::uint64_t end, std::uint64_t value) {
  if (end != 0 && value >= end) return State::given_up;
  return word >= value ? State::reached : State::pending;
}

void write_and_look(Input& input, Written& written, const PeerPage& page) {
  while (!input.empty()) {
    const std::uint32_t word = input.take<std::uint16_t>() % page_words;
    const auto stands = static_cast<std::uint64_t>(input.number());
    const std::uint64_t end = input.take<std::uint8_t>() % 4 == 0 ? static_cast<std::uint64_t>(input.number()) : 0;
    const auto wanted = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(input.number()), 1, page_values - 1);
    written.write(word, stands);
    written.write(page_words + word, end);
    require(page.look({word, wanted}) == expected(stands, end, wanted), "a point is not what its word says");
    page.sleep({word, wanted}, std::chrono::nanoseconds{1});
  }
}

void run_page(std::span<const std::byte> bytes) {
  Input input(bytes);
  const auto kind = static_cast<Stranger>(input.below(static_cast<std::size_t>(Stranger::count)));
  const auto seals = input.take<std::uint8_t>() & (right_seals | F_SEAL_SEAL);
  Written written;
  written.seal(seals);
  Strangers strangers;
  spi::UniqueFd file = strangers.open(kind, written.file(), page_bytes);
  try {
    const PeerPage page(std::move(file));
    require(kind == Stranger::genuine && (seals & right_seals) == right_seals, "a file is taken for a page");
    write_and_look(input, written, page);
  } catch (const Error& error) {
    require(error.code() == Errc::corrupt_descriptor, error.what());
    require(kind != Stranger::genuine || (seals & right_seals) != right_seals, "a page is refused");
  }
}

const Register registered("page", &run_page);

}  // namespace
}  // namespace weir::fuzz
