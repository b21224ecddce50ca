// SPDX-License-Identifier: Apache-2.0
#include "base/forks.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "weir/error.hpp"

namespace weir {
namespace {

using detail::ForkStep;
using spi::ForkMoment;
using Steps = std::array<ForkStep::Step, ForkStep::last + 1>;

// Nothing here is constructed or destroyed at run time, so there is no moment at which a fork could find it half made.
constinit std::array<std::atomic<ForkStep::Step>, ForkStep::last + 1> all_steps{};
constinit std::mutex list_mutex;
constinit spi::ForkLink* first = nullptr;
constinit thread_local bool prepared = false;
constinit thread_local Steps taken{};  // taken by this thread before its fork; a library being loaded may add others

void take(std::size_t place) noexcept {
  taken[place] = all_steps[place].load(std::memory_order_acquire);
  if (taken[place]) taken[place](ForkMoment::before);
}

void give_back(std::size_t place, ForkMoment moment) noexcept {
  if (taken[place]) taken[place](moment);
}

void before() noexcept {
  (void)weir_category();  // make it now, so that no fork finds it half made
  for (std::size_t place = 0; place < ForkStep::last; ++place) take(place);
  spi::ForkLink::visit_all(ForkMoment::before);
  take(ForkStep::last);
  prepared = true;
}

void after(ForkMoment moment) noexcept {
  if (!prepared) return;
  prepared = false;
  give_back(ForkStep::last, moment);
  spi::ForkLink::visit_all(moment);
  for (std::size_t place = ForkStep::last; place-- > 0;) give_back(place, moment);
}

// Runs at load time, when no thread uses the library yet. Installs the handlers before those of any driver, so that
// they run last before a fork and first after it. If the library is unloaded unused, its handlers go with it.
[[gnu::constructor]] void install() noexcept {
  pthread_atfork(
      before, [] { after(ForkMoment::parent); },
      [] {
        ++detail::fork_generation;
        after(ForkMoment::child);
      });
}

}  // namespace

detail::ForkStep::ForkStep(std::size_t place, Step step) noexcept {
  if (all_steps[place].exchange(step, std::memory_order_acq_rel)) {
    std::fputs("weir: two fork handlers have the same place\n", stderr);
    std::abort();
  }
}

spi::ForkLink::ForkLink(void* object, Visit how) noexcept : object_(object), visit_(how) {
  const std::scoped_lock lock(list_mutex);
  next_ = first;
  if (first) first->previous_ = this;
  first = this;
}

spi::ForkLink::~ForkLink() {
  const std::scoped_lock lock(list_mutex);
  (previous_ ? previous_->next_ : first) = next_;
  if (next_) next_->previous_ = previous_;
}

void spi::ForkLink::walk(const std::function<void(const ForkLink&)>& step) {
  const std::scoped_lock lock(list_mutex);
  for (const ForkLink* link = first; link; link = link->next_) step(*link);
}

void spi::ForkLink::visit_all(ForkMoment moment) noexcept {
  if (moment == ForkMoment::before) list_mutex.lock();
  for (ForkLink* link = first; link; link = link->next_) link->visit_(link->object_, moment);
  if (moment != ForkMoment::before) list_mutex.unlock();
}

}  // namespace weir
