// SPDX-License-Identifier: Apache-2.0
// Those who wait for lent memory: the list of loans under its lock, and the count of what comes back.

#include <mutex>

#include "explore.hpp"
#include "memory/return_count.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

using detail::ReturnCount;
using explore::require;
using explore::Scene;

struct Loans {
  void give_back() {
    {
      const std::scoped_lock lock(mutex);
      returns.begin();
      --listed;
    }
    ++back;
    returns.end();
  }
  // As wait_for_returns() does.
  void await() {
    for (;;) {
      const auto seen = returns.done();
      const bool none = [&] {
        const std::scoped_lock lock(mutex);
        return listed == 0;
      }();
      if (none && !returns.some_under_way()) break;
      returns.wait(seen, sync::Clock::time_point::max());
    }
    require(back.load() == lent, "all of it is back");
  }
  explicit Loans(int count) : lent(count), listed(count) {}

  const int lent;
  sync::Mutex mutex;
  int listed;  // under the mutex
  sync::Atomic<int> back{0};
  ReturnCount returns;
};

TEST(LentReturns, NobodySleepsThroughTheLastOne) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& loans = scene.make<Loans>(2);
    scene.thread([&] { loans.give_back(); });
    scene.thread([&] { loans.give_back(); });
    scene.thread([&] { loans.await(); });
  }));
}

}  // namespace
}  // namespace weir::test
