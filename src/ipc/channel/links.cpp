// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/links.hpp"

#include <sys/socket.h>

#include <set>
#include <string>
#include <utility>

#include "base/fork_mutex.hpp"
#include "base/never_ends.hpp"
#include "device/segment_ends.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/lent_out.hpp"
#include "memory/lent.hpp"
#include "weir/error.hpp"

namespace weir::detail::channel {
namespace {

struct Links {
  std::mutex mutex;
  std::set<Link*> all;
};

Links& links() { return never_ends<Links>(); }

const ForkStep step(9, [](spi::ForkMoment moment) noexcept { hold_across_fork(links().mutex, moment); });

void tell_of_end(spi::SegmentId id) noexcept {
  const std::scoped_lock lock(links().mutex);
  for (Link* const link : links().all) link->retire(id);
}

// Takes itself out of the set before it ends.
class Listed final : public Link {
 public:
  Listed(spi::UniqueFd socket, std::uint32_t window) : Link(std::move(socket), window) {
    const std::scoped_lock lock(links().mutex);
    links().all.insert(this);
  }
  ~Listed() {
    const std::scoped_lock lock(links().mutex);
    links().all.erase(this);
  }
};

}  // namespace

void check_socket(const char* operation, int socket) {
  if (!is_unix_socket(socket, SOCK_SEQPACKET))
    throw Error(Errc::invalid_argument,
                std::string(operation) + ": file " + std::to_string(socket) +
                    " is not a connected Unix-domain socket of type SOCK_SEQPACKET; use Channel::make_sockets, or "
                    "socket(AF_UNIX, SOCK_SEQPACKET, 0)");
}

std::shared_ptr<Link> make_link(spi::UniqueFd socket, std::uint32_t window) {
  answer_for_segment_ends(&tell_of_end);
  answer_for_lent(lent_out);
  const auto end = [](Listed* link) {  // an abandoned one stays in the set
    if (!link->abandoned()) delete link;
  };
  const std::shared_ptr<Listed> made(new Listed(std::move(socket), window), end);
  made->greet();
  made->ask_who_it_is();
  return made;
}

void list_lent(LentList& lent) {
  const std::scoped_lock lock(links().mutex);
  for (Link* const link : links().all) link->list_lent(lent);
}

}  // namespace weir::detail::channel
