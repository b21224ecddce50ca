// SPDX-License-Identifier: Apache-2.0
// Packets of a channel, as a peer may write them: a packet is read to its end or refused, and the two halves of the
// connection never have more of anything than was agreed. Input: packets, each with a count of files and a length,
// after two grants that this side has sent.

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "input.hpp"
#include "ipc/channel/borrower.hpp"
#include "ipc/channel/lender.hpp"
#include "ipc/channel/messages.hpp"
#include "target.hpp"
#include "weir/error.hpp"

namespace weir::fuzz {
namespace {

using namespace detail::channel;

constexpr std::uint32_t window = 4;

struct Memory {
  std::uint64_t bytes = 0;
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes; }
};

struct Halves {
  Lender<std::shared_ptr<int>> lender;
  Borrower<Memory> borrower{window};
  std::shared_ptr<int> kept = std::make_shared<int>(1);
  std::size_t back = 0;
  bool has_page = false;
  std::set<std::uint32_t> lent;  // segments of the grants, which nobody takes

  void apply(const Message& message) {
    if (const auto* const hello = std::get_if<Hello>(&message)) {
      lender.open_window(std::min(hello->window, 65536U));
    } else if (const auto* const segment = std::get_if<Segment>(&message)) {
      const auto bytes = segment->descriptor.size();
      require(bytes >= detail::wire_size && bytes <= detail::most_wire_size, "a descriptor of another size");
      borrower.add(segment->number, {std::to_integer<std::uint64_t>(segment->descriptor[0])}, segment->files());
    } else if (const auto* const grant = std::get_if<Grant>(&message)) {
      require(grant->payload.size() <= most_payload, "a payload that is too large");
      const Memory& memory = borrower.check(*grant);
      borrower.arrive(grant->segment);
      lent.insert(grant->segment);
      require(grant->ready.word < detail::page_words && grant->ready.value < detail::page_values,
              "a point that no page can hold");
      require(grant->ready.value == 0 || has_page, "a point of a page that never came");
      require(grant->size != 0 && grant->offset + grant->size <= memory.bytes && grant->size <= memory.bytes,
              "a grant that leaves its segment");
    } else if (const auto* const releases = std::get_if<Releases>(&message)) {
      for (std::size_t i = 0; i < releases->size(); ++i) {
        require(lender.release((*releases)[i]) == kept, "another thing came back");
        ++back;
      }
    } else if (const auto* const credit = std::get_if<Credit>(&message)) {
      lender.credit(credit->buffers);
    } else if (std::holds_alternative<Page>(message)) {
      borrower.add_page();
      require(!std::exchange(has_page, true), "a second page");
    } else if (const auto* const retire = std::get_if<Retire>(&message)) {
      (void)borrower.retire(retire->segment);
      require(!lent.contains(retire->segment), "a segment ended under a buffer that has arrived");
    }
    require(borrower.arrived() <= window, "more buffers than the window");
    require(lender.live() + back == 2, "grants were lost or found");
    require(kept.use_count() == static_cast<long>(1 + lender.live()), "references were lost or found");
  }
};

void run_channel(std::span<const std::byte> bytes) {
  Input input(bytes);
  Halves halves;
  halves.lender.open_window(window);
  for (int i = 0; i < 2; ++i) (void)halves.lender.lend(halves.kept);
  try {
    while (!input.empty()) {
      const auto files = input.below(8);
      const std::size_t length = input.take<std::uint16_t>();
      PacketReader packet(input.bytes(length), files);
      std::size_t needed = 0;
      while (const auto message = packet.next()) {
        needed += std::holds_alternative<Segment>(*message) || std::holds_alternative<Page>(*message) ? 1U : 0U;
        halves.apply(*message);
      }
      require(needed == files, "the files of a packet are not those of its messages");
    }
  } catch (const Error& error) {
    require(error.code() == Errc::corrupt_descriptor, error.what());
  }
  const auto ended = halves.lender.end();
  const auto back = std::ranges::count_if(ended, [](const auto& slot) { return slot.is_grant(); });
  require(static_cast<std::size_t>(back) + halves.back == 2, "not everything came back");
}

const Register registered("channel", &run_channel);

}  // namespace
}  // namespace weir::fuzz
