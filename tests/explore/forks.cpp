// SPDX-License-Identifier: Apache-2.0
// The handlers of forks, as src/base/forks.cpp has them, for processes that fork as the explorer wants.
#include "base/forks.hpp"

#include <array>
#include <mutex>
#include <new>

#include "explore.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir {
namespace {

using detail::ForkStep;
using spi::ForkLink;
using spi::ForkMoment;

constinit std::array<ForkStep::Step, ForkStep::last + 1> steps{};
constinit sync::Mutex list_mutex;
constinit ForkLink* first = nullptr;

void step(std::size_t place, ForkMoment moment) noexcept {
  if (steps[place]) steps[place](moment);
}

void before() noexcept {
  for (std::size_t place = 0; place < ForkStep::last; ++place) step(place, ForkMoment::before);
  ForkLink::visit_all(ForkMoment::before);
  step(ForkStep::last, ForkMoment::before);
}

void after(ForkMoment moment) noexcept {
  step(ForkStep::last, moment);
  ForkLink::visit_all(moment);
  for (std::size_t place = ForkStep::last; place-- > 0;) step(place, moment);
}

}  // namespace

detail::ForkStep::ForkStep(std::size_t place, Step step) noexcept { steps[place] = step; }

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

void spi::ForkLink::visit_all(ForkMoment moment) noexcept {
  if (moment == ForkMoment::before) list_mutex.lock();
  for (ForkLink* link = first; link; link = link->next_) link->visit_(link->object_, moment);
  if (moment != ForkMoment::before) list_mutex.unlock();
}

bool explore::fork(Where where) {
  before();
  const bool child = running->fork(where);
  if (child) ++detail::fork_generation;
  after(child ? ForkMoment::child : ForkMoment::parent);
  return child;
}

void explore::forget_forks() noexcept {
  new (&list_mutex) sync::Mutex;
  first = nullptr;
  detail::fork_generation = 1;
}

}  // namespace weir
