// SPDX-License-Identifier: Apache-2.0
#include "stream/release_queue.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "base/forks.hpp"
#include "base/thrown_by.hpp"
#include "stream/watcher.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

/// The flag of this thread: whether it is running a release.
bool& releasing() noexcept { return sync::flag_of_thread<Release>(); }

// The list of all queues, for callers that ask about a device.
constinit sync::Mutex queues_mutex;
constinit ReleaseState* first_queue = nullptr;

const ForkStep queues_step(6, [](spi::ForkMoment moment) noexcept { hold_across_fork(queues_mutex, moment); });

}  // namespace

// The state of a queue. It lives as long as the queue, and as long as any release is in it.
struct ReleaseState : spi::Job, std::enable_shared_from_this<ReleaseState> {
  using Lock = std::unique_lock<sync::Mutex>;

  explicit ReleaseState(const spi::DeviceState& of) : device(of) { run = &ReleaseState::do_all; }
  /// Show the queue to others, once it has an owner.
  void list() noexcept {
    const std::scoped_lock lock(queues_mutex);
    next = first_queue;
    if (next) next->previous = this;
    first_queue = this;
  }
  ~ReleaseState() {
    const std::scoped_lock lock(queues_mutex);
    (previous ? previous->next : first_queue) = next;
    if (next) next->previous = previous;
  }

  struct List {
    Release* first = nullptr;
    Release* last = nullptr;

    void append(Release& release) noexcept {
      release.next_ = nullptr;
      release.previous_ = last;
      (last ? last->next_ : first) = &release;
      last = &release;
    }
    void remove(Release& release) noexcept {
      (release.previous_ ? release.previous_->next_ : first) = release.next_;
      (release.next_ ? release.next_->previous_ : last) = release.previous_;
    }
  };
  struct Doing {
    std::uint64_t number;
    sync::ThreadId thread;
    Doing* next;
  };

  // Called when all points of `release` have passed.
  void passed(Release& release) noexcept {
    bool post = false;
    {
      const Lock lock(mutex);
      waiting.remove(release);
      ready.append(release);
      post = !std::exchange(posted, true);
      if (post) self = shared_from_this();
      changed.notify_all();
    }
    // Whoever posted this before may have got no thread, or may have been in the process that forked this one.
    post ? Watcher::get().post(*this) : Watcher::get().try_again();
  }

  // Run the first release that is ready. The lock is free meanwhile.
  void do_one(Lock& lock) noexcept {
    Release& release = *ready.first;
    ready.remove(release);
    Doing mine{release.number_, sync::this_thread(), doing};
    doing = &mine;
    const auto keep = std::exchange(release.queue_, nullptr);
    lock.unlock();
    const bool before = std::exchange(releasing(), true);
    release.run();
    releasing() = before;
    device.releases_done.fetch_add(1, std::memory_order_release);
    lock.lock();
    Doing** at = &doing;
    while (*at != &mine) at = &(*at)->next;
    *at = mine.next;
    changed.notify_all();
  }
  static void do_all(spi::Job& job) noexcept {
    auto& state = static_cast<ReleaseState&>(job);
    std::shared_ptr<ReleaseState> last;
    Lock lock(state.mutex);
    state.doing_all = sync::this_thread();
    const auto newest = state.issued;
    while (state.ready.first && state.ready.first->number_ <= newest) state.do_one(lock);
    state.doing_all = 0;
    if (state.ready.first) {  // they come one after the other, and the thread has other things to do
      lock.unlock();
      return Watcher::get().post(state);
    }
    state.posted = false;
    last = std::move(state.self);
    lock.unlock();
  }
  [[nodiscard]] bool does_any_up_to(std::uint64_t number) const noexcept {
    for (const Doing* one = doing; one; one = one->next) {
      if (one->number <= number) return true;
    }
    return false;
  }

  [[nodiscard]] bool awaits_any() noexcept {
    const Lock lock(mutex);
    return !releasing() && (ready.first || first_awaited());
  }
  /// Return whether there is a release that some thread will do, or is doing.
  [[nodiscard]] bool has_any() noexcept {
    const Lock lock(mutex);
    return ready.first || doing || first_awaited();
  }
  /// Timelines that are asked how far they are.
  struct Asked {
    static constexpr std::size_t most = 64;  // at a time, because there may be no memory for more
    spi::Kept timelines[most];
    std::size_t count = 0;
  };
  void find_timelines(std::uint64_t newest, std::uint64_t after, Asked& found) noexcept;
  bool settle(bool waits) noexcept;
  /// Lost timelines about which nobody can be asked, each from some value on.
  struct Untold {
    static constexpr std::size_t most = 64;
    spi::Kept timelines[most];
    std::uint64_t from[most];
    std::size_t count = 0;
  };
  [[nodiscard]] const Release* first_awaited(const Untold* but = nullptr) const noexcept;

  // For a forked child: a release that another thread of the parent had in hand continues in the parent only.
  void leak_what_others_held() noexcept {
    for (Release *one = waiting.first, *next_one = nullptr; one; one = next_one) {
      next_one = one->next_;
      if (!one->points_.stands()) waiting.remove(*one);
    }
  }
  // Another thread may have stood anywhere between the mark that this is posted and the end of do_all(). This thread
  // may be inside do_all() itself, of this queue or of another one.
  void forget_what_others_do() noexcept {
    const auto me = sync::this_thread();
    for (Doing** at = &doing; *at;) {
      if ((*at)->thread == me) {
        at = &(*at)->next;
      } else {
        *at = (*at)->next;
      }
    }
    if (!posted || doing_all == me) return;
    doing_all = 0;
    Watcher::get().inherit(*this);
  }
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::before) return mutex.lock();
    if (moment == spi::ForkMoment::child) {
      new (&changed) sync::Condition;  // the old one counts waiters that exist only in the parent
      forget_what_others_do();
      leak_what_others_held();
    }
    mutex.unlock();
  }

  const spi::DeviceState& device;
  sync::Mutex mutex;
  sync::Condition changed;  // a release became ready or was done
  List waiting, ready;
  Doing* doing = nullptr;
  std::uint64_t issued = 0;
  bool posted = false;           // in the Watcher's list, or on its way there or from there to the end of do_all()
  sync::ThreadId doing_all = 0;  // the thread that is inside do_all()
  std::shared_ptr<ReleaseState> self;  // while posted
  ReleaseState *next = nullptr, *previous = nullptr;
  spi::ForkLink link{*this};  // the last member, as ForkLink requires
};

// Return the oldest release whose point can still be observed, or null. The others wait for points that were never
// recorded; that was reported when their stream was lost. Those that stand at a timeline of `but` are left out, too.
const Release* ReleaseState::first_awaited(const Untold* but) const noexcept {
  const auto is_untold = [&](const Release& release) {
    for (std::size_t i = 0; but && i < but->count; ++i) {
      if (release.at_ == &*but->timelines[i] && release.value_ >= but->from[i]) return true;
    }
    return false;
  };
  const Release* one = waiting.first;
  while (one && one->at_ && (one->at_->never_known(one->value_) || is_untold(*one))) one = one->next_;
  return one;
}

// Needs the lock. Fill `found` with the timelines at which the releases up to number `newest` wait: each once, in the
// order of their ids, beginning behind the id `after`.
void ReleaseState::find_timelines(std::uint64_t newest, std::uint64_t after, Asked& found) noexcept {
  spi::StreamState* sorted[Asked::most];
  spi::StreamState** end = sorted;
  for (const Release* one = waiting.first; one && one->number_ <= newest; one = one->next_) {
    if (!one->at_ || one->at_->id() <= after) continue;
    const auto place = std::ranges::lower_bound(sorted, end, one->at_->id(), {}, &spi::StreamState::id);
    if (place == sorted + Asked::most || (place != end && *place == one->at_)) continue;
    if (end != sorted + Asked::most) ++end;
    std::move_backward(place, end - 1, end);
    *place = one->at_;
  }
  found.count = 0;
  for (spi::StreamState** at = sorted; at != end; ++at) found.timelines[found.count++] = spi::Kept(**at);
}

// Each timeline is asked once, however many releases wait there. What passed before has left the list, so the list is
// read again for every `Asked::most` timelines.
bool ReleaseState::settle(bool waits) noexcept {
  if (releasing()) return false;
  Asked asked;  // empty while the lock is held, because a timeline may end with its Kept
  Lock lock(mutex);
  const auto newest = issued;
  std::uint64_t last_id = 0;
  do {
    find_timelines(newest, last_id, asked);
    lock.unlock();
    for (std::size_t i = 0; i < asked.count; ++i) {
      const auto timeline = std::move(asked.timelines[i]);
      last_id = timeline->id();
      timeline->settle();
    }
    lock.lock();
  } while (asked.count == Asked::most);
  bool some = false;
  for (; ready.first; some = true) do_one(lock);
  if (!waits || !doing) return some;
  changed.wait(lock, [this, last = issued] { return !does_any_up_to(last); });
  return true;
}

ReleaseQueue::ReleaseQueue(const spi::DeviceState& device) : state_(std::make_shared<ReleaseState>(device)) {
  state_->list();
}
ReleaseQueue::~ReleaseQueue() = default;

void ReleaseQueue::add(Release& release) noexcept {
  release.points_.keep();
  {
    const std::scoped_lock lock(state_->mutex);
    release.queue_ = state_;
    release.number_ = ++state_->issued;
    state_->waiting.append(release);
  }
  step(release, true);
}

void ReleaseQueue::step(Release& release, bool may_submit) noexcept {
  ReleaseState& state = *release.queue_;
  const auto stands_at = [&](spi::StreamState* timeline, std::uint64_t value) {
    const std::scoped_lock lock(state.mutex);
    release.at_ = timeline;
    release.value_ = value;
  };
  auto& entries = release.points_.entries();
  while (!entries.empty()) {
    const auto next = entries.back();
    stands_at(next.stream, next.value);
    const auto passed = [](spi::Waiter& waiter, spi::InHand& /*others*/) noexcept {
      Release& self = *static_cast<Release::Waiting&>(waiter).of;
      {
        const std::scoped_lock lock(self.queue_->mutex);
        self.at_ = nullptr;
      }
      self.points_.drop_last();
      step(self, false);
    };
    const bool asks = may_submit || (next.stream->submitted(next.value) && next.stream->is_marked(next.value));
    const bool over = asks && next.stream->finished(next.value);
    if (!over && next.stream->after(next.value, release.points_, passed, true)) return;
    stands_at(nullptr, 0);
    release.points_.drop_last();
  }
  state.passed(release);
}

void ReleaseQueue::drain() {
  Watcher::get().try_again();
  drain(*state_);
}

void ReleaseQueue::drain(ReleaseState& state) {
  constexpr unsigned most_refusals = 80;
  if (releasing()) return;
  ReleaseState::Untold untold;  // destroyed after the lock, as is `at`, because a timeline may end with it
  spi::Kept at;
  ReleaseState::Lock lock(state.mutex);
  const auto last = state.issued;
  for (unsigned round = 0;;) {
    const Release* const oldest = state.first_awaited(&untold);
    if (state.ready.first) {
      state.do_one(lock);
    } else if (oldest && oldest->number_ <= last) {
      const auto number = oldest->number_;
      if (oldest->at_) at = spi::Kept(*oldest->at_);
      const auto value = oldest->value_;
      lock.unlock();
      std::exception_ptr refused;
      bool is_untold = false;
      if (at) {
        auto status = WaitStatus::ready;
        refused = thrown_by([&] { status = at->wait_for(value, std::chrono::nanoseconds{-1}); });
        at->settle();
        if (status == WaitStatus::lost) (void)at->finished(value, is_untold);
      }
      lock.lock();
      const Release* const now = state.first_awaited(&untold);
      const bool stands = now && now->number_ == number;
      if (stands && refused && round >= most_refusals) std::rethrow_exception(refused);
      if (stands && is_untold && round >= most_refusals) {
        if (untold.count == ReleaseState::Untold::most) return;
        untold.from[untold.count] = value;
        untold.timelines[untold.count++] = std::move(at);
        round = 0;
        continue;
      }
      lock.unlock();  // another thread has it in hand, or its timeline is lost but still has work running
      at = {};
      if (stands) sync::pause(round);
      round = stands ? round + 1 : 0;
      lock.lock();
    } else if (state.does_any_up_to(last)) {
      state.changed.wait(lock);
    } else {
      return;
    }
  }
}

bool ReleaseQueue::settle() noexcept { return state_->settle(true); }

bool ReleaseQueue::settle_within(std::chrono::nanoseconds most) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + most;
  for (unsigned round = 0; !settle(); ++round) {
    if (!state_->awaits_any() || Clock::now() >= deadline) return false;
    sync::pause(round);
  }
  return true;
}

namespace {

// Call `function` with each queue of `device`. The loop goes hand over hand: a queue that it holds stays in the list.
template <class Function>
void for_each_queue(const spi::DeviceState& device, const Function& function) {
  std::shared_ptr<ReleaseState> hand, before;
  for (;;) {
    {
      const std::scoped_lock lock(queues_mutex);
      before = std::exchange(hand, nullptr);
      for (ReleaseState* queue = before ? before->next : first_queue; queue && !hand; queue = queue->next) {
        if (&queue->device == &device) hand = queue->weak_from_this().lock();
      }
    }
    before = nullptr;  // without the lock, because the queue may end with it
    if (!hand) return;
    function(*hand);
  }
}

}  // namespace

bool in_release() noexcept { return releasing(); }

void drain_releases(const spi::DeviceState& device) noexcept {
  Watcher::get().try_again();
  for_each_queue(device, [](ReleaseState& queue) {
    (void)thrown_by([&] { ReleaseQueue::drain(queue); });  // the library's thread continues with them
  });
}

bool settle_releases(const spi::DeviceState& device) noexcept {
  Watcher::get().try_again();
  bool some = false;
  for_each_queue(device, [&](ReleaseState& queue) { some = queue.settle(false) || some; });
  return some;
}

std::uint64_t releases_done(const spi::DeviceState& device) noexcept {
  return device.releases_done.load(std::memory_order_acquire);
}

bool await_release(const spi::DeviceState& device, std::uint64_t before, std::chrono::nanoseconds most) noexcept {
  using Clock = std::chrono::steady_clock;
  if (releasing()) return false;
  const auto deadline = Clock::now() + most;
  for (unsigned round = 0; releases_done(device) == before && !settle_releases(device); ++round) {
    bool some = false;
    for_each_queue(device, [&](ReleaseState& queue) { some = some || queue.has_any(); });
    if (!some) return releases_done(device) != before;
    if (Clock::now() >= deadline) break;
    sync::pause(round);
  }
  return true;
}

}  // namespace weir::detail
