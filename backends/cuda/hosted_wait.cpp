// SPDX-License-Identifier: Apache-2.0
#include "hosted_wait.hpp"

#include <algorithm>
#include <utility>

#include "blocking_frees.hpp"
#include "device.hpp"
#include "stream.hpp"

namespace weir::cuda {
namespace {

// Of all lists of dependences and dependents. No driver is called and nobody is lost under it.
constinit std::mutex dependences_mutex;

}  // namespace

HostedWait::HostedWait(Gpu& gpu) : gpu_(gpu) {
  if (gpu.waits_for_values()) gate_ = gpu.gates().take();
  BlockingFrees::get().begin_wait();
}

void HostedWait::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return passed_; });
}

bool HostedWait::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return passed_; });
}

void HostedWait::open() noexcept {
  if (gate_) gpu_.gates().open(*gate_);
  {
    const std::scoped_lock lock(mutex_);
    passed_ = true;
    changed_.notify_all();
  }
  BlockingFrees::get().end_wait();
}

bool HostedWait::over() const noexcept {
  const std::scoped_lock lock(dependences_mutex);
  return over_;
}

void HostedWait::end(const std::exception_ptr& error) noexcept {
  std::list<Dependent> dependents;  // whose last count may end here, without the lock
  {
    const std::scoped_lock lock(dependences_mutex);
    if (std::exchange(over_, true)) return;
    error_ = error;
    dependents.swap(dependents_);
  }
  std::list<Dependences::One> past;
  for (const Dependent& one : dependents) {
    auto& stream = static_cast<GpuStream&>(*one.stream);
    if (error && !one.for_space) stream.lose_dependent(error);
    Dependences& its = stream.dependences();
    const std::scoped_lock lock(dependences_mutex);
    for (auto at = its.ones_.begin(); at != its.ones_.end();) {
      const auto found = at++;
      // A stream that depends in both ways comes twice. It goes on depending on the bytes until it is lost.
      if (found->wait.get() == this && found->for_space == one.for_space) past.splice(past.end(), its.ones_, found);
    }
    its.count_.store(its.ones_.size(), std::memory_order_release);
    its.leave_place(stream.gpu());
  }
  open();
}

void Dependences::Prepared::add(GpuStream& stream, std::shared_ptr<HostedWait> wait, bool for_space) {
  streams_.push_back({spi::Kept(stream), for_space});
  ones_.push_back({std::move(wait), 0, for_space});
}

Dependences::Prepared Dependences::prepare(GpuStream& stream, std::shared_ptr<HostedWait> wait) {
  Prepared prepared;
  prepared.add(stream, std::move(wait), false);
  return prepared;
}

bool Dependences::depends_on(const HostedWait& wait, bool for_space) const noexcept {
  const auto covers = [&](const One& one) { return one.wait.get() == &wait && (for_space || !one.for_space); };
  return std::any_of(ones_.begin(), ones_.end(), covers);
}

std::shared_ptr<HostedWait> Dependences::first_up_to(std::uint64_t value) const noexcept {
  if (!any()) return nullptr;
  const std::scoped_lock lock(dependences_mutex);
  const auto found = std::find_if(ones_.begin(), ones_.end(), [&](const One& one) { return one.from <= value; });
  return found == ones_.end() ? nullptr : found->wait;
}

bool Dependences::still_after(std::chrono::milliseconds time, std::uint64_t value) const {
  while (const auto wait = first_up_to(value)) {
    if (!wait->wait_for(time)) return true;
  }
  return false;
}

Dependences::Prepared Dependences::prepare_up_to(std::uint64_t value, GpuStream& stream, bool for_space) {
  Prepared prepared;
  const std::scoped_lock lock(dependences_mutex);
  for (const One& one : ones_) {
    if (one.from > value) continue;
    const bool space = for_space || one.for_space;
    if (one.wait->error_ && !space) std::rethrow_exception(one.wait->error_);
    prepared.add(stream, one.wait, space);
  }
  return prepared;
}

bool Dependences::take_place(Gpu& gpu) noexcept {
  const std::scoped_lock lock(dependences_mutex);
  if (!counted_ && !gpu.add_follower()) return false;
  return counted_ = holds_place_ = true;
}

void Dependences::let_go_of_place(Gpu& gpu) noexcept {
  const std::scoped_lock lock(dependences_mutex);
  holds_place_ = false;
  leave_place(gpu);
}

// Needs the lock.
void Dependences::leave_place(Gpu& gpu) noexcept {
  if (ones_.empty() && !holds_place_ && std::exchange(counted_, false)) gpu.end_follower();
}

std::exception_ptr Dependences::add(Prepared prepared, std::uint64_t from) noexcept {
  std::exception_ptr error;
  const std::scoped_lock lock(dependences_mutex);
  for (auto at = prepared.ones_.begin(); at != prepared.ones_.end();) {
    const auto one = at++;
    HostedWait& wait = *one->wait;
    if (wait.error_ && !one->for_space) error = wait.error_;
    if (wait.over_ || depends_on(wait, one->for_space)) {
      prepared.streams_.pop_front();
      continue;
    }
    one->from = from;
    ones_.splice(ones_.end(), prepared.ones_, one);
    wait.dependents_.splice(wait.dependents_.end(), prepared.streams_, prepared.streams_.begin());
  }
  count_.store(ones_.size(), std::memory_order_release);
  return error;
}

}  // namespace weir::cuda
