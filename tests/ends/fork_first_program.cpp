// SPDX-License-Identifier: Apache-2.0
// Forks while another thread uses something for the first time, and with that makes what exists once in the library.
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "forking.hpp"
#include "sleeping.hpp"
#include "weir/channel.hpp"
#include "weir/leases.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::test {
namespace {

/// Holds a fork up, with the list of links locked, until a thread has done something or waits for the fork.
class HoldUp {
 public:
  explicit HoldUp(const std::function<void()>& use)
      : thread_([this, use] {
          id_ = gettid();
          while (!begun_) std::this_thread::yield();
          use();
          done_ = true;
        }) {
    while (id_ == 0) std::this_thread::yield();
  }
  HoldUp(const HoldUp&) = delete;
  HoldUp& operator=(const HoldUp&) = delete;
  ~HoldUp() = default;
  void join() { thread_.join(); }

  void fork(spi::ForkMoment moment) noexcept {
    if (moment != spi::ForkMoment::before) return;
    begun_ = true;
    while (!done_ && !sleeps(id_)) std::this_thread::yield();
  }

 private:
  std::atomic<pid_t> id_ = 0;
  std::atomic<bool> begun_ = false, done_ = false;
  std::thread thread_;
  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

using Use = std::function<void()>;

Use adopt() {
  const Stream stream(host_device());
  auto bytes = std::make_shared<std::array<std::byte, 4096>>();
  return [=] {
    (void)Buffer::from_handle(host_device(), reinterpret_cast<std::uintptr_t>(bytes->data()), bytes->size(), {},
                              stream);
  };
}

Use borrow() {
  const Stream stream(host_device());
  auto [here, there] = ipc::Channel::make_sockets();
  const auto from = std::make_shared<ipc::Channel>(std::move(here)),
             to = std::make_shared<ipc::Channel>(std::move(there));
  const auto memory = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  from->send(memory->allocate(small, stream), stream);
  return [=] { (void)to->receive(stream); };
}

Use await_returns() {
  const ResourcePtr memory = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  return [=] { (void)ipc::wait_for_returns(*memory, 0, std::chrono::seconds(1)); };
}

Use grow() {
  const Stream stream(host_device());
  const PoolPtr pool = make_pool(make_resource(host_device()));
  return [=] { (void)pool->allocate(small, stream); };
}

Use choose() {
  return [] { (void)current_resource(host_device()); };
}

Use exported() {
  const Stream stream(host_device());
  const auto memory = std::make_shared<Buffer>(
      make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(small, stream));
  return [=] { (void)memory->ipc_descriptor(stream); };
}

Use call() {
  const Stream stream(host_device());
  return [=] {
    stream.call([] {});
    stream.synchronize();
  };
}

void fork_while(Use (*prepare)()) {
  HoldUp thread(prepare());
  in_child([&] { prepare()(); });
  thread.join();
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  for (const auto prepare : {adopt, borrow, await_returns, grow, choose, exported, call}) {
    in_child([&] { fork_while(prepare); });  // each in a process that has used nothing yet
  }
  say_done();
  return 0;
}
