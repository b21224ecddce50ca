// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/links.hpp"

#include <sys/socket.h>

#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/fork_mutex.hpp"
#include "base/loaded_code.hpp"
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
  std::unordered_set<const spi::Segment*> told;  // of whose ends some peer is to hear
};

Links& links() { return never_ends<Links>(); }

const ForkStep links_step(9, [](spi::ForkMoment moment) noexcept { hold_across_fork(links().mutex, moment); });

// The watcher is asked without the lock: a failure is reported to the user's sink, which may call anything. For the same
// reason the link that is asked has an owner here.
void tell_of_end(const spi::Segment& segment) noexcept {
  Links& links = channel::links();
  std::unique_lock lock(links.mutex);
  if (links.told.erase(&segment) == 0) return;
  for (auto at = links.all.begin(); at != links.all.end();) {
    Link* const link = *at;
    std::shared_ptr<Link> owned = link->retire(&segment) ? link->weak_from_this().lock() : nullptr;
    if (owned) {
      lock.unlock();
      owned->tell_soon();
      owned.reset();  // which may be the link's end
      lock.lock();
    }
    at = links.all.upper_bound(link);
  }
}

// Takes itself out of the set before it ends.
class Listed final : public Link {
 public:
  Listed(spi::StrangerFd&& socket, std::uint32_t window, Borrows what, std::optional<uid_t> user,
         std::uint32_t most_sent)
      : Link(std::move(socket), window, what, user, most_sent) {
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

std::shared_ptr<Link> make_link(spi::StrangerFd&& socket, std::uint32_t window, Borrows what, std::optional<uid_t> user,
                                std::uint32_t most_sent) {
  keep_code_loaded();
  answer_for_segment_ends(&tell_of_end);
  answer_for_lent(lent_out);
  const auto end = [](Listed* link) {  // an inherited one stays in the set
    if (!link->inherited()) delete link;
  };
  const std::shared_ptr<Listed> made(new Listed(std::move(socket), window, what, user, most_sent), end);
  made->greet();
  made->ask_who_it_is();
  return made;
}

void tell_of_its_end(spi::Segment& segment) {
  (void)segment.id();  // ends are heard of segments that have one
  const std::scoped_lock lock(links().mutex);
  links().told.insert(&segment);
}

void list_lent(LentList& lent) {
  const std::scoped_lock lock(links().mutex);
  for (Link* const link : links().all) link->list_lent(lent);
}

}  // namespace weir::detail::channel
