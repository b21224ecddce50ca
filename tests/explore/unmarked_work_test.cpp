// SPDX-License-Identifier: Apache-2.0
// Marks of a stream on which others put work, and memory that comes back there. A mark whose value is larger than what
// was read when the memory came back covers the work before, even if it records nothing itself.
#include "stream/unmarked_work.hpp"

#include <mutex>

#include "explore.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;

/// A stream, its timeline, and a piece of memory in its cache.
class Stream {
 public:
  /// The application uses the memory and gives it back.
  void use_and_free() {
    work_.fetch_add(1, std::memory_order_relaxed);  // the driver has its own locks
    unmarked_.add();
    const int closed_at = issued_.load(std::memory_order_relaxed);
    const std::scoped_lock lock(cache_);
    closed_at_ = closed_at;
    used_until_ = work_.load(std::memory_order_relaxed);
    cached_ = true;
  }
  /// Another stream wants the memory: it makes a mark, and takes what was closed before that.
  void take() {
    const std::scoped_lock turn(turn_);
    const int value = issued_.load(std::memory_order_relaxed) + 1;
    issued_.store(value, std::memory_order_release);
    if (unmarked_.take()) recorded_ = work_.load(std::memory_order_relaxed);
    const std::scoped_lock lock(cache_);
    if (!cached_ || closed_at_ >= value) return;
    require(recorded_ >= used_until_, "the event is recorded after the last use");
    cached_ = false;
  }

 private:
  detail::UnmarkedWork unmarked_;
  sync::Atomic<int> work_{0}, issued_{0};
  sync::Mutex turn_, cache_;
  sync::Plain<int> recorded_{0}, closed_at_{0}, used_until_{0};
  sync::Plain<bool> cached_{false};
};

explore::Story frees_and_takes(int frees, int takes) {
  return [=](Scene& scene) {
    auto& stream = scene.make<Stream>();
    scene.thread([&stream, frees] {
      for (int i = 0; i < frees; ++i) stream.use_and_free();
    });
    for (int thread = 0; thread < 2; ++thread) {
      scene.thread([&stream, takes] {
        for (int i = 0; i < takes; ++i) stream.take();
      });
    }
  };
}

TEST(UnmarkedWork, IsCoveredByTheNextMark) { EXPECT_TRUE(explore::holds(frees_and_takes(1, 1))); }
TEST(UnmarkedWork, IsCoveredByOneOfSeveralMarks) { EXPECT_TRUE(explore::holds(frees_and_takes(2, 2))); }

}  // namespace
}  // namespace weir::test
