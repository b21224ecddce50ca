// SPDX-License-Identifier: Apache-2.0
#include "memory/lent_returns.hpp"

#include <utility>

#include "base/forks.hpp"
#include "base/library_thread.hpp"
#include "base/never_ends.hpp"
#include "memory/return_count.hpp"
#include "stream/release_queue.hpp"

namespace weir::detail {
namespace {

bool& brings_back() noexcept { return sync::flag_of_thread<Returning>(); }

ReturnCount& returns() { return never_ends<ReturnCount>(); }

const ForkStep returns_step(11, [](spi::ForkMoment moment) noexcept {
  ReturnCount& count = returns();
  if (moment == spi::ForkMoment::child) count.renew();
});

}  // namespace

Returning::Returning() noexcept : process_(fork_generation), before_(std::exchange(brings_back(), true)) {
  returns().begin();
}

Returning::~Returning() {
  brings_back() = before_;
  if (process_ == fork_generation) returns().end();  // else what ended called fork(), and this is the child
}

std::uint32_t lent_returns() noexcept { return returns().done(); }

bool some_return() noexcept { return returns().some_under_way(); }

void wait_for_return(std::uint32_t seen, sync::Clock::time_point until) noexcept { returns().wait(seen, until); }

bool may_wait_for_returns() noexcept { return !brings_back() && !in_release() && !LibraryThread::here(); }

}  // namespace weir::detail
