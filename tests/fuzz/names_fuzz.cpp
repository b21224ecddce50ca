// SPDX-License-Identifier: Apache-2.0
// Packets about names, as a client or a server may write them: what is read is written the same way again, and a
// session never lends more than it may, nor says what does not fit into a packet. Input: packets, each with a byte that
// says who reads it and a length.

#include <memory>
#include <utility>
#include <vector>

#include "input.hpp"
#include "ipc/names/session.hpp"
#include "target.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"

namespace weir::fuzz {
namespace {

using namespace detail::names;

constexpr std::size_t most_loans = 3;

std::vector<std::byte> copy_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

struct Served {
  Served() {
    for (const char* const name : {"a", "ab", "b"}) {
      ipc::Listing listing{name, 0, Layout::compact(f32, {2, 3}), 24, "here"};
      directory.publish(std::make_shared<Publication>(
          Publication{std::move(listing), resource->allocate(24, stream), ipc::Access::read_write, stream}));
    }
  }

  void take(Bytes packet) {
    const bool was_greeted = session.greeted();
    const Reply reply = session.take(packet);
    require(session.greeted() || reply.ends, "it goes on without a greeting");
    require(reply.packet.size() <= largest_answer, "an answer that is too large");
    const Answer answer = decode_answer(reply.packet);
    require(encode(answer) == reply.packet, "the answer reads as another one");
    require(reply.opens_channel == (!was_greeted && session.greeted() && !session.subscribed()),
            "a channel too many, or too few");
    if (!reply.lends) return;
    marks.push_back(session.mark(reply.lends->listing));
    require(marks.size() <= most_loans, "more loans than it may have");
    require(ledger.loans(session.client()) == marks.size(), "loans were lost or found");
  }

  Stream stream{host_device()};
  ResourcePtr resource = make_resource(host_device());
  Directory directory{8, 2};
  Ledger ledger;
  Session session{directory, ledger, ledger.enter(1000), most_loans};
  std::vector<std::shared_ptr<const void>> marks;
};

void run_names(std::span<const std::byte> bytes) {
  Input input(bytes);
  Served served;
  try {
    while (!input.empty()) {
      const bool for_server = input.below(2) == 0;
      const std::size_t length = input.take<std::uint16_t>();
      const auto packet = copy_of(input.bytes(length));
      if (for_server) {
        require(encode(decode_question(packet)) == packet, "the question reads as another one");
        served.take(packet);
      } else {
        require(encode(decode_answer(packet)) == packet, "what the server says reads as something else");
      }
    }
  } catch (const Error& error) {
    require(error.code() == Errc::corrupt_descriptor, error.what());
  }
  std::size_t told = 0;
  if (served.session.subscribed()) {
    (void)served.directory.withdraw("a");
    while (served.session.news()) ++told;
  }
  require(told <= 1, "news of nothing");
}

const Register registered("names", &run_names);

}  // namespace
}  // namespace weir::fuzz
