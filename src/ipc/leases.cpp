// SPDX-License-Identifier: Apache-2.0
#include "ipc/leases.hpp"

#include <cstdint>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "base/file_closer.hpp"
#include "base/forks.hpp"
#include "base/never_ends.hpp"
#include "ipc/attendant.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/lent_out.hpp"
#include "memory/lent.hpp"
#include "memory/lent_returns.hpp"
#include "stream/release_queue.hpp"
#include "weir/error.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {
namespace {

constexpr char purpose[] = "lease";

struct Lease {
  spi::StrangerFd end;  // the read end of its pipe; other processes have the write end
  Buffer buffer;
  std::vector<Buffer> more;
  std::list<Lease>::iterator self{};
};

// One thread waits for all leases to end.
class Leases final : public Attendant {
 public:
  Leases() noexcept
      : Attendant({.purpose = purpose,
                   .thread = "weir leases",
                   .no_thread = "no thread to wait for its end",
                   .wait = "lease: epoll_wait",
                   .lost = "memory that other processes opened is not used again"}) {}

  spi::StrangerFd grant(Buffer buffer, std::vector<Buffer> more = {}) {
    auto [mine, theirs] = make_pipe(purpose);
    std::list<Lease> one;  // destroyed without the lock if this throws
    one.push_back({std::move(mine), std::move(buffer), std::move(more)});
    Lease& lease = one.front();
    lease.self = one.begin();
    const Lock lock(mutex_);
    need_thread();
    constexpr std::uint32_t hang_up = 0;  // is reported always, and written bytes never
    const int error = files().add(lease.end.get(), hang_up, reinterpret_cast<std::uintptr_t>(&lease));
    if (error != 0) fail_descriptor(purpose, "epoll_ctl", error);
    granted_.splice(granted_.end(), one);
    return std::move(theirs);
  }

  bool settle() {
    Lock lock(mutex_);
    if (!is_elsewhere()) return false;
    lock.unlock();
    settle_closes();  // so that this process's own copies are closed
    lock.lock();
    return is_elsewhere() && await_round(lock);
  }

  void list(LentList& lent) {
    constexpr std::int32_t unknown = 0;
    const Lock lock(mutex_);
    for (const Lease& lease : granted_) {
      lent.add(lease.buffer, unknown);
      for (const Buffer& buffer : lease.more) lent.add(buffer, unknown);
    }
  }

  [[nodiscard]] std::size_t granted() {
    const Lock lock(mutex_);
    return granted_.size();
  }

 private:
  [[nodiscard]] bool is_idle() const noexcept override { return granted_.empty(); }

  // The leases remain the parent's, and so do the buffers that they keep.
  void leave_to_parent() noexcept override {
    static auto& of_parents = *new std::list<Lease>;
    of_parents.splice(of_parents.end(), granted_);
  }

  void serve(std::span<const epoll_event> ready, bool, Lock& lock) noexcept override {
    const auto process = fork_generation;
    for (const epoll_event& event : ready) {
      end(*reinterpret_cast<Lease*>(event.data.u64), lock);
      if (fork_generation != process) return;
    }
  }

  void end(Lease& ended, Lock& lock) noexcept {
    files().remove(ended.end.get());  // closing the file is not enough, because a forked child may have a copy
    const Returning returning;
    std::list<Lease> over;
    over.splice(over.end(), granted_, ended.self);
    lock.unlock();
    over.clear();
    lock.lock();
  }

  std::list<Lease> granted_;
};

Leases& leases() { return never_ends<Leases>(); }

const ForkStep leases_step(0, [](spi::ForkMoment moment) noexcept { leases().fork(moment); });

}  // namespace

spi::StrangerFd grant_lease(Buffer buffer) {
  answer_for_lent(lent_out);
  return leases().grant(std::move(buffer));
}

spi::StrangerFd grant_lease(std::vector<Buffer> buffers) {
  answer_for_lent(lent_out);
  Buffer last = std::move(buffers.back());
  buffers.pop_back();
  return leases().grant(std::move(last), std::move(buffers));
}

bool settle_leases() { return !in_release() && leases().settle(); }

void list_leases(LentList& lent) { leases().list(lent); }

std::size_t granted_leases() { return leases().granted(); }

}  // namespace weir::detail
