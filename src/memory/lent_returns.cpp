// SPDX-License-Identifier: Apache-2.0
#include "memory/lent_returns.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <ctime>
#include <utility>

#include "base/forks.hpp"
#include "base/library_thread.hpp"
#include "base/never_ends.hpp"
#include "stream/release_queue.hpp"

namespace weir::detail {
namespace {

// A futex rather than a condition variable: a forked child has nobody who sleeps, and nothing to repair.
struct Returns {
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::child) under_way = sleepers = 0;
  }
  std::atomic<std::uint32_t> done{0}, under_way{0}, sleepers{0};
  spi::ForkLink link{*this};  // the last member, as ForkLink requires
};
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

bool& brings_back() noexcept { return sync::flag_of_thread<Returning>(); }

Returns& all() { return never_ends<Returns>(); }

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* most) noexcept {
  return ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, most, nullptr, 0);
}

}  // namespace

Returning::Returning() noexcept : process_(fork_generation), before_(std::exchange(brings_back(), true)) {
  ++all().under_way;
}

// Whoever sees that nothing is under way any more sees that something is done.
Returning::~Returning() {
  brings_back() = before_;
  if (process_ != fork_generation) return;  // what ended called fork(), and this is the child
  Returns& returns = all();
  ++returns.done;
  --returns.under_way;
  if (returns.sleepers != 0) (void)futex(returns.done, FUTEX_WAKE, INT_MAX, nullptr);
}

std::uint32_t lent_returns() noexcept { return all().done; }

bool some_return() noexcept { return all().under_way != 0; }

void wait_for_return(std::uint32_t seen, sync::Clock::time_point until) noexcept {
  using std::chrono::nanoseconds;
  constexpr nanoseconds longest = std::chrono::hours{24};  // so that the rest fits; a caller looks again
  const nanoseconds left = std::min<nanoseconds>(until - sync::Clock::now(), longest);
  if (left.count() <= 0) return;
  constexpr std::int64_t second = 1'000'000'000;
  timespec most{};
  most.tv_sec = static_cast<std::time_t>(left.count() / second);
  most.tv_nsec = static_cast<long>(left.count() % second);
  Returns& returns = all();
  ++returns.sleepers;
  (void)futex(returns.done, FUTEX_WAIT, seen, &most);
  --returns.sleepers;
}

bool may_wait_for_returns() noexcept { return !brings_back() && !in_release() && !LibraryThread::here(); }

}  // namespace weir::detail
