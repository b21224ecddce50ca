// SPDX-License-Identifier: Apache-2.0
#include "base/forks.hpp"

#include <pthread.h>

#include <iterator>
#include <mutex>

#include "weir/error.hpp"

namespace weir {
namespace {

using spi::ForkMoment;

// Nothing here is made or ended at run time: there is no moment at which a fork could find it half made.
constinit std::mutex list_mutex;
constinit spi::ForkLink* first = nullptr;
constinit thread_local bool prepared = false;

using Singleton = void (*)(ForkMoment) noexcept;
constexpr Singleton singletons[] = {detail::fork_leases,   detail::fork_attachments, detail::fork_pools,
                                    detail::fork_external, detail::fork_staging,     detail::fork_releases,
                                    detail::fork_watcher,  detail::fork_registry};

void before() noexcept {
  (void)weir_category();  // made by now, and not half made; so are the singletons
  for (const auto singleton : singletons) singleton(ForkMoment::before);
  spi::ForkLink::visit_all(ForkMoment::before);
  detail::fork_closer(ForkMoment::before);
  prepared = true;
}

void after(ForkMoment moment) noexcept {
  if (!prepared) return;
  prepared = false;
  detail::fork_closer(moment);
  spi::ForkLink::visit_all(moment);
  for (auto singleton = std::rbegin(singletons); singleton != std::rend(singletons); ++singleton) (*singleton)(moment);
}

// At load time, when nobody uses the library yet; before any driver's handlers, so that these run last before a fork
// and first after it. An unused library that is unloaded takes its handlers with it.
[[gnu::constructor]] void install() noexcept {
  pthread_atfork(
      before, [] { after(ForkMoment::parent); },
      [] {
        ++detail::fork_generation;
        after(ForkMoment::child);
      });
}

}  // namespace

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
